//! A call: what a client asks of the process that serves, as the arguments of a request, and read from them.
//! docs/protocol.md describes each.

use std::fmt::Display;
use std::str::{self, FromStr};

#[cfg(feature = "ingest")]
use super::resp::MOST_REQUEST_BYTES;
use super::resp::RequestWriter;
#[cfg(feature = "ingest")]
use crate::database::OverlapQuery;
use crate::database::{Expiry, Filter, Near, OnMatch, Order, Policy, Query};
use crate::document::Document;
use crate::error::{Error, ErrorKind, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
#[cfg(feature = "ingest")]
use crate::text::Unit;
use crate::unix_seconds::UnixSeconds;

/// The version of the calls and of their answers.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, PartialEq)]
pub(super) enum Call {
    Add(Document, Policy),
    Query(Query),
    #[cfg(feature = "ingest")]
    Overlap(String, OverlapQuery),
    Get(Vec<u8>),
    Delete(Vec<u8>),
    Expire(Expiry),
    Flush,
    Info,
}

/// Why there is no answer: a word that tells the kind, and a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    /// For a request that is none.
    pub(super) fn syntax(message: impl Into<String>) -> Self {
        Self {
            code: "ERR",
            message: message.into(),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self {
            code: name_of(&CODES, &error.kind()),
            message: Error::with_causes(&error),
        }
    }
}

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

/// The kind for which a word stands. One of another release may be unknown.
pub(super) fn kind_of(code: &str) -> ErrorKind {
    let found = CODES.iter().find(|(_, word)| *word == code);
    found.map_or(ErrorKind::Refused, |(kind, _)| *kind)
}

impl Call {
    /// Reads a request. `None` if its name is none of a call.
    pub(super) fn parse(name: &[u8], arguments: &[&[u8]]) -> Option<Result<Self, Refusal>> {
        let mut rest = Arguments { rest: arguments };
        let name = Word::new(name);
        let call = match name.as_str() {
            "SIM.ADD" => add(&mut rest),
            "SIM.QUERY" => query(&mut rest),
            #[cfg(feature = "ingest")]
            "SIM.OVERLAP" => overlap(&mut rest),
            #[cfg(not(feature = "ingest"))]
            "SIM.OVERLAP" => {
                return Some(Err(Refusal::syntax(
                    "the process that has the database open cuts no texts: it was built without the feature `ingest`",
                )));
            }
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
                "'{}' is too much for {}",
                shown(more),
                name.as_str()
            ))),
        });
        Some(ended)
    }
}

/// How much of a text is shown in a message.
fn shown(text: &[u8]) -> String {
    text[..text.len().min(40)].escape_ascii().to_string()
}

/// The name of a call or of an option, in capitals, without an allocation.
pub(super) struct Word {
    bytes: [u8; Self::MOST_BYTES],
    length: usize,
}

impl Word {
    /// What is longer is no name. It is cut off, with room for a mark that no name has.
    const MOST_BYTES: usize = 16;

    pub(super) fn new(text: &[u8]) -> Self {
        let mut bytes = [0; Self::MOST_BYTES];
        let length = text.len().min(Self::MOST_BYTES);
        bytes[..length].copy_from_slice(&text[..length]);
        bytes.make_ascii_uppercase();
        Self { bytes, length }
    }

    /// The name. What is no text is no name.
    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).unwrap_or("?")
    }
}

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

    fn number<T: FromStr<Err: Display>>(&mut self, what: &str) -> Result<T, Refusal> {
        let text = self.text(what)?;
        text.parse().map_err(|error| {
            let text = shown(text.as_bytes());
            Refusal::syntax(format!("the {what} '{text}' cannot be taken: {error}"))
        })
    }

    /// Texts, with their number before them.
    fn texts(&mut self, what: &str) -> Result<Vec<&'a str>, Refusal> {
        let count: usize = self.number(what)?;
        // So many can only be there if each is.
        let count = count.min(self.rest.len() + 1);
        (0..count).map(|_| self.text(what)).collect()
    }

    /// The name of the next option. `None` at the end.
    fn option(&mut self) -> Option<Word> {
        let [first, rest @ ..] = self.rest else {
            return None;
        };
        self.rest = rest;
        Some(Word::new(first))
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
        self.named("order", &ORDERS, "ORDER is distance or similarity")
    }

    /// What has this name in a list. If nothing has it, `otherwise` says which names there are.
    fn named<T: Copy>(
        &mut self,
        what: &str,
        names: &[(T, &str)],
        otherwise: &str,
    ) -> Result<T, Refusal> {
        let name = self.text(what)?;
        for (named, own) in names {
            if own.eq_ignore_ascii_case(name) {
                return Ok(*named);
            }
        }
        Err(Refusal::syntax(otherwise))
    }
}

/// The name in a list that has one for each value.
fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: &T) -> &'static str {
    let found = names.iter().find(|(own, _)| own == value);
    found.expect("every value has a name").1
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

/// The longest text that is sent (bytes). The rest of a request is for the options.
#[cfg(feature = "ingest")]
const MOST_TEXT_BYTES: usize = MOST_REQUEST_BYTES - (64 << 10);

#[cfg(feature = "ingest")]
const UNITS: [(Unit, &str); 3] = [
    (Unit::Sentence, "sentence"),
    (Unit::Paragraph, "paragraph"),
    (Unit::Document, "document"),
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
        match option.as_str() {
            "SKETCH" => document = document.with_sketch(rest.sketch()?),
            "SEEN" => document = document.with_seen(rest.number::<i64>("time")?),
            "REPEATS" => {
                document = document.with_repeats(rest.number("number of repeats")?);
            }
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
                let otherwise = "ONMATCH is skip, link or replace";
                policy.on_match = rest.named("action", &ACTIONS, otherwise)?;
            }
            "TOUCH" => policy.touch = true,
            "KEEP" => policy = policy.keep(rest.number("number to keep")?),
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
    let mut limit = None;
    let mut nearest = None;
    while let Some(option) = rest.option() {
        match option.as_str() {
            "SKETCH" => query = query.with_sketch(rest.sketch()?),
            "ORDER" => query = query.order(rest.order()?),
            "LIMIT" => limit = Some(rest.number("limit")?),
            "NEAREST" => nearest = Some(rest.number("number")?),
            other => near = near_option(near, other, rest)?,
        }
    }
    query = match (limit, nearest) {
        (Some(_), Some(_)) => {
            return Err(Refusal::syntax(
                "NEAREST says how many are listed, so LIMIT cannot stand beside it",
            ));
        }
        (Some(limit), None) => query.limit(limit),
        (None, Some(n)) => query.nearest(n),
        (None, None) => query,
    };
    Ok(Call::Query(query.near(near)))
}

fn near_option(near: Near, option: &str, rest: &mut Arguments<'_>) -> Result<Near, Refusal> {
    Ok(match option {
        "DISTANCE" => near.max_distance(rest.number("distance")?),
        "SIMILARITY" => near.min_similarity(rest.number("similarity")?),
        "SINCE" => near.since(rest.number::<i64>("time")?),
        "SCOPES" => near.scopes(rest.texts("scope")?),
        other => return Err(unknown_option(other)),
    })
}

#[cfg(feature = "ingest")]
fn overlap(rest: &mut Arguments<'_>) -> Result<Call, Refusal> {
    let text = rest.text("text")?.to_owned();
    let mut query = OverlapQuery::new();
    let mut near = Near::new();
    while let Some(option) = rest.option() {
        match option.as_str() {
            "UNIT" => {
                let otherwise = "UNIT is sentence, paragraph or document";
                query = query.unit(rest.named("unit", &UNITS, otherwise)?);
            }
            "WITHOUT" => query = query.without(rest.bytes("key")?),
            "LIMIT" => query = query.limit(rest.number("limit")?),
            other => near = near_option(near, other, rest)?,
        }
    }
    Ok(Call::Overlap(text, query.near(near)))
}

fn expire(rest: &mut Arguments<'_>) -> Result<Call, Refusal> {
    let mut expiry = Expiry::new();
    while let Some(option) = rest.option() {
        expiry = match option.as_str() {
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

/// A request to insert a document.
///
/// # Errors
///
/// [`Error::NotSendable`] for a policy with a function, and [`Error::RequestLength`].
pub(super) fn add_request(document: &Document, policy: &Policy) -> Result<Vec<u8>> {
    let mut request = RequestWriter::default();
    request.text("SIM.ADD");
    request.text(document.key());
    match document.fingerprint() {
        Some(fingerprint) => request.text(fingerprint.to_string()),
        None => request.text("-"),
    }
    write_sketch(&mut request, document.sketch());
    // Sent again, it is the same document.
    write_option(&mut request, "SEEN", &document.seen());
    if document.repeats() > 0 {
        write_option(&mut request, "REPEATS", &document.repeats());
    }
    if !document.rank().is_empty() {
        write_list(&mut request, "RANK", document.rank());
    }
    if !document.scope().is_empty() {
        write_option(&mut request, "SCOPE", document.scope());
    }
    if !document.payload().is_empty() {
        request.text("PAYLOAD");
        request.text(document.payload());
    }
    let action = name_of(&ACTIONS, &policy.on_match);
    write_option(&mut request, "ONMATCH", action);
    if policy.touch {
        request.text("TOUCH");
    }
    if policy.keep != Policy::default().keep {
        write_option(&mut request, "KEEP", &policy.keep);
    }
    write_filter(&mut request, &policy.filter)?;
    request.finish()
}

/// A request for what is near.
///
/// # Errors
///
/// [`Error::NotSendable`] for a query with a function, and [`Error::RequestLength`].
pub(super) fn query_request(query: &Query) -> Result<Vec<u8>> {
    let mut request = RequestWriter::default();
    write_option(&mut request, "SIM.QUERY", &query.fingerprint());
    write_sketch(&mut request, query.sketch());
    write_filter(&mut request, &query.filter)?;
    request.finish()
}

/// A request for how much of a text stood elsewhere.
///
/// # Errors
///
/// [`Error::TextLength`] for a text longer than a request can be, and [`Error::RequestLength`].
#[cfg(feature = "ingest")]
pub(super) fn overlap_request(text: &str, query: &OverlapQuery) -> Result<Vec<u8>> {
    if text.len() > MOST_TEXT_BYTES {
        return Err(Error::TextLength {
            given: text.len(),
            max: MOST_TEXT_BYTES,
        });
    }
    let OverlapQuery {
        unit,
        near,
        without,
        limit,
    } = query;
    let mut request = RequestWriter::default();
    write_option(&mut request, "SIM.OVERLAP", text);
    write_option(&mut request, "UNIT", name_of(&UNITS, unit));
    if let Some(key) = without {
        request.text("WITHOUT");
        request.text(key);
    }
    write_option(&mut request, "LIMIT", limit);
    write_near(&mut request, near);
    request.finish()
}

/// A request to remove what an expiry names.
///
/// # Errors
///
/// [`Error::RequestLength`].
pub(super) fn expire_request(expiry: &Expiry) -> Result<Vec<u8>> {
    let mut request = RequestWriter::default();
    request.text("SIM.EXPIRE");
    if let Some(before) = expiry.before.map(UnixSeconds::unchecked) {
        write_option(&mut request, "BEFORE", &before);
    }
    if let Some(scopes) = &expiry.scopes {
        let scopes: Vec<&String> = scopes.iter().collect();
        write_list(&mut request, "SCOPES", &scopes);
    }
    request.finish()
}

/// A request of a name, and perhaps a key, which a document can have.
pub(super) fn plain_request(name: &str, key: Option<&[u8]>) -> Vec<u8> {
    let mut request = RequestWriter::default();
    request.text(name);
    if let Some(key) = key {
        request.text(key);
    }
    let request = request.finish();
    request.expect("a name and a key are short")
}

fn write_option(request: &mut RequestWriter, name: &str, value: &(impl ToString + ?Sized)) {
    request.text(name);
    request.text(value.to_string());
}

/// An option with texts, with their number before them.
fn write_list(request: &mut RequestWriter, name: &str, values: &[impl ToString]) {
    write_option(request, name, &values.len());
    for value in values {
        request.text(value.to_string());
    }
}

fn write_sketch(request: &mut RequestWriter, sketch: Option<&Sketch>) {
    if let Some(sketch) = sketch {
        write_option(request, "SKETCH", sketch);
        request.text(sketch.shingles().to_string());
    }
}

/// What is near, and what is listed. What is as it would be without it is left out.
fn write_filter(request: &mut RequestWriter, filter: &Filter) -> Result<()> {
    if filter.verify.is_some() || !filter.ignored.numbers.is_empty() {
        return Err(Error::NotSendable);
    }
    write_near(request, &filter.near);
    let default = Filter::default();
    if filter.order != default.order {
        write_option(request, "ORDER", name_of(&ORDERS, &filter.order));
    }
    if filter.is_nearest {
        write_option(request, "NEAREST", &filter.limit);
    } else if filter.limit != default.limit {
        write_option(request, "LIMIT", &filter.limit);
    }
    Ok(())
}

/// Which documents are near. What is as it would be without it is left out.
fn write_near(request: &mut RequestWriter, near: &Near) {
    if let Some(max_distance) = near.max_distance {
        write_option(request, "DISTANCE", &max_distance);
    }
    if let Some(least) = near.min_similarity {
        write_option(request, "SIMILARITY", &least);
    }
    if let Some(since) = near.since {
        write_option(request, "SINCE", &since.unchecked());
    }
    if let Some(scopes) = &near.scopes {
        write_list(request, "SCOPES", &scopes.names());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::resp::find_request;

    /// What a request says, read again.
    fn read_again(call: &Call) -> Result<Call, Refusal> {
        let bytes = match call {
            Call::Add(document, policy) => add_request(document, policy)?,
            Call::Query(query) => query_request(query)?,
            #[cfg(feature = "ingest")]
            Call::Overlap(text, query) => overlap_request(text, query)?,
            Call::Get(key) => plain_request("SIM.GET", Some(key)),
            Call::Delete(key) => plain_request("sim.del", Some(key)),
            Call::Expire(expiry) => expire_request(expiry)?,
            Call::Flush => plain_request("SIM.FLUSH", None),
            Call::Info => plain_request("Sim.Info", None),
        };
        let found = find_request(&bytes).map_err(Refusal::syntax)?;
        let found = found.ok_or_else(|| Refusal::syntax("not whole"))?;
        let arguments = found.arguments.into_iter().map(|range| &bytes[range]);
        let arguments: Vec<&[u8]> = arguments.collect();
        Call::parse(arguments[0], &arguments[1..]).ok_or_else(|| Refusal::syntax("no call"))?
    }

    #[test]
    fn every_call_is_read_as_it_was_sent() -> Result<(), Refusal> {
        let sketch = Sketch::new(&[7; 16], 12)?;
        let document = Document::new(&b"key \xff\r\n"[..], Fingerprint::from_bits(u64::MAX));
        let near = Near::within(9).min_similarity(0.1 + 0.2).since(-5);
        let near = near.scopes(["", "a b", "ü"]);
        let whole = document
            .clone()
            .with_sketch(sketch)
            .with_seen(1_700_000_000)
            .with_repeats(Document::MAX_REPEATS)
            .with_rank([-1, i64::MAX])
            .with_scope("die Straße")
            .with_payload(&b"\0\xff"[..]);
        let policy = Policy::replace().limit(usize::MAX).keep(3).touch(true);
        let query = Query::new(Fingerprint::from_bits(3));
        let calls = [
            Call::Add(document.clone(), Policy::skip()),
            Call::Add(whole, policy.near(near.clone()).order(Order::Similarity)),
            Call::Add(Document::new("short", None).with_seen(0), Policy::link()),
            Call::Query(query.clone()),
            Call::Query(query.clone().nearest(10)),
            Call::Query(query.clone().near(near.clone()).nearest(usize::MAX)),
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

    #[cfg(feature = "ingest")]
    #[test]
    fn a_question_how_much_stood_elsewhere_is_read_as_it_was_sent() -> Result<(), Refusal> {
        use crate::text::Unit;
        let plain = OverlapQuery::new();
        let near = Near::within(9).min_similarity(0.1 + 0.2).since(-5);
        let whole = plain.clone().unit(Unit::Paragraph).near(near.scopes(["a"]));
        let whole = whole.without(&b"\xff\r\n"[..]).limit(usize::MAX);
        for query in [plain.clone(), plain.unit(Unit::Document), whole] {
            let call = Call::Overlap("Ein Satz. \r\n Noch einer: ü.".to_owned(), query);
            assert_eq!(read_again(&call)?, call);
        }
        Ok(())
    }

    #[test]
    fn what_is_wrong_with_a_call_is_said() {
        let refused = |name: &str, arguments: &[&str]| {
            let arguments: Vec<&[u8]> = arguments.iter().map(|text| text.as_bytes()).collect();
            let parsed = Call::parse(name.as_bytes(), &arguments).expect("it is a call");
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
        for both in [
            &[print, "NEAREST", "3", "LIMIT", "3"],
            &[print, "limit", "9", "nearest", "3"],
        ] {
            assert!(refused("SIM.QUERY", both).message.contains("LIMIT cannot"));
        }
        let no_policy = refused("SIM.ADD", &["a", print, "NEAREST", "5"]);
        assert!(no_policy.message.contains("'NEAREST' is no option"));
        assert!(refused("SIM.EXPIRE", &[]).message.contains("BEFORE"));
        assert_eq!(Call::parse(b"SET", &[]), None);
    }

    #[test]
    fn a_function_is_not_sent() {
        let query = Query::new(Fingerprint::from_bits(1)).verify(|_| Ok(true));
        assert!(matches!(query_request(&query), Err(Error::NotSendable)));
    }

    #[cfg(feature = "ingest")]
    #[test]
    fn a_text_that_no_request_can_hold_is_refused_before_it_is_sent() {
        let query = OverlapQuery::new().without(vec![b'k'; 1024]);
        let request = |bytes| overlap_request(&"x".repeat(bytes), &query);
        assert!(request(MOST_TEXT_BYTES).is_ok_and(|it| it.len() < MOST_REQUEST_BYTES));
        let refused = request(MOST_TEXT_BYTES + 1);
        assert!(matches!(refused, Err(Error::TextLength { given, max }) if given == max + 1));
    }
}
