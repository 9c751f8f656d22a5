//! A call: what a client asks of the process that serves, as the arguments of a request, and read from them.
//! docs/protocol.md describes each.

use std::fmt::Display;
use std::str::{self, FromStr};

use super::resp::push_request;
use crate::database::{Expiry, Near, OnMatch, Order, Policy, Query};
use crate::document::Document;
use crate::error::{Error, ErrorKind, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::unix_seconds::UnixSeconds;

/// The version of the calls and of their answers.
pub(crate) const VERSION: u32 = 1;

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Call {
    Add(Document, Policy),
    Query(Query),
    Get(Vec<u8>),
    Delete(Vec<u8>),
    Expire(Expiry),
    Flush,
    Info,
}

/// Why there is no answer: a word that tells the kind, and a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    /// For a request that is none.
    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self {
            code: "ERR",
            message: message.into(),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self {
            code: code_of(error.kind()),
            message: with_causes(&error),
        }
    }
}

/// What happened, and why: the message and those of its causes.
fn with_causes(error: &Error) -> String {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        message += &format!(": {source}");
        cause = source.source();
    }
    message
}

/// The words for the kinds of errors.
const CODES: [(ErrorKind, &str); 15] = [
    (ErrorKind::Input, "INPUT"),
    (ErrorKind::NotFound, "NOTFOUND"),
    (ErrorKind::AlreadyExists, "EXISTS"),
    (ErrorKind::Busy, "INUSE"),
    (ErrorKind::ReadOnly, "READONLY"),
    (ErrorKind::Closed, "CLOSED"),
    (ErrorKind::Forked, "FORKED"),
    (ErrorKind::Version, "VERSION"),
    (ErrorKind::Damaged, "DAMAGED"),
    (ErrorKind::Storage, "STORAGE"),
    (ErrorKind::OutcomeUnknown, "UNKNOWN"),
    (ErrorKind::Refused, "ERR"),
    (ErrorKind::Interrupted, "INTERRUPTED"),
    (ErrorKind::Callback, "CALLBACK"),
    (ErrorKind::NotServed, "NOTSERVED"),
];

fn code_of(kind: ErrorKind) -> &'static str {
    let found = CODES.iter().find(|(of, _)| *of == kind);
    found.expect("every kind has a word").1
}

/// The kind for which a word stands. One of another release may be unknown.
pub(crate) fn kind_of(code: &str) -> ErrorKind {
    let found = CODES.iter().find(|(_, word)| *word == code);
    found.map_or(ErrorKind::Refused, |(kind, _)| *kind)
}

impl Call {
    /// Reads a request. `None` if its name is none of a call.
    pub(crate) fn parse(name: &str, arguments: &[&[u8]]) -> Option<Result<Self, Refusal>> {
        let mut rest = Arguments { rest: arguments };
        let call = match name {
            "SIM.ADD" => add(&mut rest),
            "SIM.QUERY" => query(&mut rest),
            "SIM.GET" => rest.bytes("key").map(Self::Get),
            "SIM.DEL" => rest.bytes("key").map(Self::Delete),
            "SIM.EXPIRE" => expire(&mut rest),
            "SIM.FLUSH" => Ok(Self::Flush),
            "SIM.INFO" => Ok(Self::Info),
            _ => return None,
        };
        let ended = call.and_then(|call| match rest.rest {
            [] => Ok(call),
            [more, ..] => Err(Refusal::syntax(format!(
                "'{}' is too much for {name}",
                shown(more)
            ))),
        });
        Some(ended)
    }

    /// Adds the request to the bytes that are to be sent.
    ///
    /// # Errors
    ///
    /// [`Error::NotSendable`] for a policy or a query with a function.
    pub(crate) fn push(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut request = Request::default();
        match self {
            Self::Add(document, policy) => request.add(document, policy)?,
            Self::Query(query) => request.query(query)?,
            Self::Get(key) => request.texts([b"SIM.GET", &**key]),
            Self::Delete(key) => request.texts([b"SIM.DEL", &**key]),
            Self::Expire(expiry) => request.expire(expiry),
            Self::Flush => request.text("SIM.FLUSH"),
            Self::Info => request.text("SIM.INFO"),
        }
        push_request(out, &request.arguments);
        Ok(())
    }
}

/// How much of a text is shown in a message.
fn shown(text: &[u8]) -> String {
    text[..text.len().min(40)].escape_ascii().to_string()
}

/// The arguments that are not read yet.
struct Arguments<'a> {
    rest: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    fn next(&mut self, what: &str) -> Result<&'a [u8], Refusal> {
        let [first, rest @ ..] = self.rest else {
            return Err(Refusal::syntax(format!("the {what} is missing")));
        };
        self.rest = rest;
        Ok(first)
    }

    fn bytes(&mut self, what: &str) -> Result<Vec<u8>, Refusal> {
        self.next(what).map(<[u8]>::to_vec)
    }

    fn text(&mut self, what: &str) -> Result<&'a str, Refusal> {
        let bytes = self.next(what)?;
        let text = str::from_utf8(bytes).ok();
        text.ok_or_else(|| Refusal::syntax(format!("the {what} '{}' is no UTF-8", shown(bytes))))
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Refusal> {
        let text = self.text(what)?;
        let number = text.parse().ok();
        number.ok_or_else(|| {
            Refusal::syntax(format!(
                "the {what} '{}' is no number that it can be",
                shown(text.as_bytes())
            ))
        })
    }

    /// Texts, with their number before them.
    fn texts(&mut self, what: &str) -> Result<Vec<&'a str>, Refusal> {
        let count: usize = self.number(what)?;
        // So many can only be there if each is.
        let count = count.min(self.rest.len() + 1);
        (0..count).map(|_| self.text(what)).collect()
    }

    /// The name of the next option, in capitals. `None` at the end.
    fn option(&mut self) -> Option<String> {
        let name = self.next("option").ok()?;
        Some(shown(name).to_ascii_uppercase())
    }

    fn sketch(&mut self) -> Result<Sketch, Refusal> {
        let digits = self.text("sketch")?;
        let shingles = self.number("number of shingles")?;
        Ok(Sketch::parse(digits, shingles)?)
    }

    fn fingerprint(&mut self) -> Result<Option<Fingerprint>, Refusal> {
        match self.text("fingerprint")? {
            "-" => Ok(None),
            digits => Ok(Some(digits.parse()?)),
        }
    }

    fn order(&mut self) -> Result<Order, Refusal> {
        let name = self.text("order")?;
        for (order, own) in ORDERS {
            if own.eq_ignore_ascii_case(name) {
                return Ok(order);
            }
        }
        Err(Refusal::syntax("ORDER is distance or similarity"))
    }
}

const ORDERS: [(Order, &str); 2] = [
    (Order::Distance, "distance"),
    (Order::Similarity, "similarity"),
];

const ACTIONS: [(OnMatch, &str); 3] = [
    (OnMatch::Skip, "skip"),
    (OnMatch::Link, "link"),
    (OnMatch::Replace, "replace"),
];

fn unknown_option(name: &str) -> Refusal {
    Refusal::syntax(format!("'{name}' is no option of this call"))
}

fn add(rest: &mut Arguments<'_>) -> Result<Call, Refusal> {
    let key = rest.bytes("key")?;
    let fingerprint = rest.fingerprint()?;
    let mut document = Document::new(key, fingerprint);
    let mut policy = Policy::skip();
    let mut near = Near::new();
    while let Some(option) = rest.option() {
        match &*option {
            "SKETCH" => document = document.with_sketch(rest.sketch()?),
            "SEEN" => document = document.with_seen(rest.number::<i64>("time")?),
            "RANK" => {
                let ranks = rest.texts("rank")?;
                let ranks = ranks.into_iter().map(str::parse);
                let ranks: Result<Vec<i64>, _> = ranks.collect();
                let ranks = ranks.map_err(|_| Refusal::syntax("a rank is no number"))?;
                document = document.with_rank(ranks);
            }
            "SCOPE" => document = document.with_scope(rest.text("scope")?),
            "PAYLOAD" => document = document.with_payload(rest.next("payload")?),
            "ONMATCH" => {
                let name = rest.text("action")?;
                let mut named = ACTIONS.iter();
                let found = named.find(|(_, own)| own.eq_ignore_ascii_case(name));
                let unknown = || Refusal::syntax("ONMATCH is skip, link or replace");
                policy.on_match = found.ok_or_else(unknown)?.0;
            }
            "TOUCH" => policy.touch = true,
            "ORDER" => policy = policy.order(rest.order()?),
            "LIMIT" => policy = policy.limit(rest.number("limit")?),
            other => near = near_option(near, other, rest)?,
        }
    }
    Ok(Call::Add(document, policy.near(near)))
}

fn query(rest: &mut Arguments<'_>) -> Result<Call, Refusal> {
    let fingerprint = rest.fingerprint()?;
    let fingerprint = fingerprint.ok_or_else(|| Refusal::syntax("a query needs a fingerprint"))?;
    let mut query = Query::new(fingerprint);
    let mut near = Near::new();
    while let Some(option) = rest.option() {
        match &*option {
            "SKETCH" => query = query.with_sketch(rest.sketch()?),
            "ORDER" => query = query.order(rest.order()?),
            "LIMIT" => query = query.limit(rest.number("limit")?),
            other => near = near_option(near, other, rest)?,
        }
    }
    Ok(Call::Query(query.near(near)))
}

/// The options that say what is near.
fn near_option(near: Near, option: &str, rest: &mut Arguments<'_>) -> Result<Near, Refusal> {
    Ok(match option {
        "DISTANCE" => near.max_distance(rest.number("distance")?),
        "SIMILARITY" => near.min_similarity(rest.number("similarity")?),
        "SINCE" => near.since(rest.number::<i64>("time")?),
        "SCOPES" => near.scopes(rest.texts("scope")?),
        other => return Err(unknown_option(other)),
    })
}

fn expire(rest: &mut Arguments<'_>) -> Result<Call, Refusal> {
    let mut expiry = Expiry::new();
    while let Some(option) = rest.option() {
        expiry = match &*option {
            "BEFORE" => expiry.before(rest.number::<i64>("time")?),
            "SCOPES" => expiry.scopes(rest.texts("scope")?),
            other => return Err(unknown_option(other)),
        };
    }
    if expiry == Expiry::new() {
        return Err(Refusal::syntax("SIM.EXPIRE needs BEFORE, SCOPES or both"));
    }
    Ok(Call::Expire(expiry))
}

/// The arguments of a request that is being made. What is as it would be without it is left out.
#[derive(Default)]
struct Request {
    arguments: Vec<Vec<u8>>,
}

impl Request {
    fn text(&mut self, text: impl AsRef<[u8]>) {
        self.arguments.push(text.as_ref().to_vec());
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a [u8]>) {
        for text in texts {
            self.text(text);
        }
    }

    fn option(&mut self, name: &str, value: impl Display) {
        self.text(name);
        self.text(value.to_string());
    }

    /// An option with texts, with their number before them.
    fn list(&mut self, name: &str, values: &[impl Display]) {
        self.option(name, values.len());
        for value in values {
            self.text(value.to_string());
        }
    }

    fn sketch(&mut self, sketch: Option<&Sketch>) {
        if let Some(sketch) = sketch {
            self.option("SKETCH", sketch);
            self.text(sketch.shingles().to_string());
        }
    }

    fn add(&mut self, document: &Document, policy: &Policy) -> Result<()> {
        self.texts([b"SIM.ADD", document.key()]);
        match document.fingerprint() {
            Some(fingerprint) => self.text(fingerprint.to_string()),
            None => self.text("-"),
        }
        self.sketch(document.sketch());
        // Sent again, it is the same document.
        self.option("SEEN", document.seen());
        if !document.rank().is_empty() {
            self.list("RANK", document.rank());
        }
        if !document.scope().is_empty() {
            self.option("SCOPE", document.scope());
        }
        if !document.payload().is_empty() {
            self.texts([b"PAYLOAD", document.payload()]);
        }
        let action = ACTIONS.iter().find(|(on, _)| *on == policy.on_match);
        self.option("ONMATCH", action.expect("every action has a name").1);
        if policy.touch {
            self.text("TOUCH");
        }
        self.filter(&policy.filter)
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        self.option("SIM.QUERY", query.fingerprint());
        self.sketch(query.sketch());
        self.filter(&query.filter)
    }

    fn filter(&mut self, filter: &crate::database::Filter) -> Result<()> {
        if filter.verify.is_some() || !filter.ignored.numbers.is_empty() {
            return Err(Error::NotSendable);
        }
        let near = &filter.near;
        if let Some(max_distance) = near.max_distance {
            self.option("DISTANCE", max_distance);
        }
        if let Some(least) = near.min_similarity {
            self.option("SIMILARITY", least);
        }
        if let Some(since) = near.since {
            self.option("SINCE", since.unchecked());
        }
        if let Some(scopes) = &near.scopes {
            self.list("SCOPES", &scopes.names());
        }
        let order = ORDERS.iter().find(|(order, _)| *order == filter.order);
        self.option("ORDER", order.expect("every order has a name").1);
        self.option("LIMIT", filter.limit);
        Ok(())
    }

    fn expire(&mut self, expiry: &Expiry) {
        self.text("SIM.EXPIRE");
        if let Some(before) = expiry.before.map(UnixSeconds::unchecked) {
            self.option("BEFORE", before);
        }
        if let Some(scopes) = &expiry.scopes {
            let scopes: Vec<&String> = scopes.iter().collect();
            self.list("SCOPES", &scopes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::resp::find_request;

    /// What a request says, read again.
    fn read_again(call: &Call) -> Result<Call, Refusal> {
        let mut bytes = Vec::new();
        call.push(&mut bytes)?;
        let found = find_request(&bytes).map_err(Refusal::syntax)?;
        let found = found.ok_or_else(|| Refusal::syntax("not whole"))?;
        let arguments = found.arguments.into_iter().map(|range| &bytes[range]);
        let arguments: Vec<&[u8]> = arguments.collect();
        let name = String::from_utf8_lossy(arguments[0]);
        Call::parse(&name, &arguments[1..]).ok_or_else(|| Refusal::syntax("no call"))?
    }

    #[test]
    fn every_call_is_read_as_it_was_sent() -> Result<(), Refusal> {
        let sketch = Sketch::new(&[7; 16], 12)?;
        let document = Document::new(&b"key \xff\r\n"[..], Fingerprint::from_bits(u64::MAX));
        let near = Near::within(9).min_similarity(0.1 + 0.2).since(-5);
        let whole = document
            .clone()
            .with_sketch(sketch)
            .with_seen(1_700_000_000)
            .with_rank([-1, i64::MAX])
            .with_scope("die Straße")
            .with_payload(&b"\0\xff"[..]);
        let policy = Policy::replace().limit(usize::MAX).touch(true);
        let query = Query::new(Fingerprint::from_bits(3));
        let calls = [
            Call::Add(document.clone(), Policy::skip()),
            Call::Add(whole, policy.near(near.clone()).order(Order::Similarity)),
            Call::Add(Document::new("short", None).with_seen(0), Policy::link()),
            Call::Query(query.clone()),
            Call::Query(query.near(near).with_sketch(sketch).limit(0)),
            Call::Get(b"k".to_vec()),
            Call::Delete(Vec::new()),
            Call::Expire(Expiry::new().before(7).scopes(["a", ""])),
            Call::Expire(Expiry::new().scopes([String::new()])),
            Call::Flush,
            Call::Info,
        ];
        for call in calls {
            assert_eq!(read_again(&call)?, call);
        }
        Ok(())
    }

    #[test]
    fn scopes_are_read_as_they_were_sent() -> Result<(), Refusal> {
        let near = Near::new().scopes(["", "a b", "ü"]);
        let call = Call::Query(Query::new(Fingerprint::from_bits(3)).near(near));
        let Call::Query(read) = read_again(&call)? else {
            return Err(Refusal::syntax("another call"));
        };
        let scopes = read.filter.near.scopes.as_ref();
        let names = scopes.map(crate::store::ScopeNames::names);
        assert_eq!(names, Some(vec!["", "a b", "ü"]));
        Ok(())
    }

    #[test]
    fn what_is_wrong_with_a_call_is_said() {
        let refused = |name: &str, arguments: &[&str]| {
            let arguments: Vec<&[u8]> = arguments.iter().map(|text| text.as_bytes()).collect();
            let parsed = Call::parse(name, &arguments).expect("it is a call");
            parsed.expect_err("it is refused")
        };
        let print = "00000000000000ff";
        assert!(refused("SIM.GET", &[]).message.contains("key is missing"));
        assert!(
            refused("SIM.GET", &["a", "b"])
                .message
                .contains("'b' is too much")
        );
        assert_eq!(refused("SIM.ADD", &["a", "xyz"]).code, "INPUT");
        let unknown = refused("SIM.ADD", &["a", print, "TTL", "5"]);
        assert!(unknown.message.contains("'TTL' is no option"));
        let missing = refused("SIM.QUERY", &[print, "SCOPES", "99999999999", "a"]);
        assert!(missing.message.contains("scope is missing"), "{missing:?}");
        assert!(
            refused("SIM.QUERY", &["-"])
                .message
                .contains("needs a fingerprint")
        );
        assert!(refused("SIM.EXPIRE", &[]).message.contains("BEFORE"));
        assert_eq!(Call::parse("SET", &[]), None);
    }

    #[test]
    fn a_function_is_not_sent() {
        let query = Query::new(Fingerprint::from_bits(1)).verify(|_| Ok(true));
        let sent = Call::Query(query).push(&mut Vec::new());
        assert!(matches!(sent, Err(Error::NotSendable)));
    }
}
