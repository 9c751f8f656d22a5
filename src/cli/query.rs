//! `simdb query` and `simdb explain`: the documents near a text, a fingerprint or a document, and how they are found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{NearArguments, Reading};
use super::console::Console;
use super::escaping::printable;
use super::lists::Lists;
use super::match_list::MatchList;
use super::output::{Output, add_fingerprint, key_fields};
use super::rejections::{self, Rejections};
use super::units::{count, positive_count};
use super::verbs::{LiveDatabase, Verb};
use super::verification::{Verification, VerifyArguments};
use crate::ingest::{Fingerprinting, Record, Records, Rejected};
use crate::inspect::Explanation;
use crate::plural::counted;
use crate::{
    Database, Document, Error, Fingerprint, Matches, Order, Query, Scheme, Sketch, SketchSize,
    Snapshot, TextMeasure, Unit,
};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    target: TargetArguments,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    near: NearArguments,

    /// The order in which matches are printed
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    order: Order,

    /// The most matches that are printed
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = count::<usize>, allow_negative_numbers = true)]
    limit: usize,

    /// Ask for the N nearest documents, whatever their distance
    ///
    /// The distance and the similarity of the database do not count. --max-distance and --min-similarity count if given
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    #[arg(value_parser = positive_count::<usize>, allow_negative_numbers = true)]
    nearest: Option<usize>,

    #[command(flatten)]
    verify: VerifyArguments,

    /// The scheme of the fingerprints in the input
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,
}

#[derive(clap::Args)]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    pub(super) query: Arguments,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct TargetArguments {
    /// Ask for a text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Ask for the one document of a file; `-` is standard input
    ///
    /// It is read as `ingest` reads it: HTML, for example, is known by its name or its beginning
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Ask for a fingerprint: 16 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,

    /// Ask for a stored document; it is a match of itself
    #[arg(long, value_name = "KEY")]
    key: Option<OsString>,

    /// Ask for every document of a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl Verb for Arguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let snapshot = database.snapshot()?;
        let session = QuerySession::new(self, database, &snapshot, output.console())?;
        let options = self.reading.options().only_content();
        let is_cut = self.reading.unit() != Unit::Document;
        let file = self.target.file.as_ref().filter(|_| is_cut);
        if let Some(path) = self.target.input.as_ref().or(file) {
            let records = output.console().records(&[path], options)?;
            return session.query_records(records, output);
        }
        if let Some(text) = self.target.text.as_ref().filter(|_| is_cut) {
            let any_match = session.query_all(&session.units_of_text(text)?, output)?;
            return Ok(session.answer(any_match));
        }

        let Some(document) = session.document()? else {
            return Ok(Answer::No);
        };
        let matches = match session.query(&document) {
            Some(query) => snapshot.query(&query)?,
            None => {
                output.remark("the text is too short to judge, so nothing matches it");
                Matches::default()
            }
        };
        if matches.total() == 0 && document.fingerprint.is_some() {
            output.remark(&session.no_match_message(&document));
        }
        session.print_matches(&document, &matches, output)?;
        Ok(session.answer(matches.total() > 0))
    }

    /// The names of the columns. Of many documents, each has a line in words.
    fn heading(&self) -> Option<&'static str> {
        let is_one = self.target.input.is_none() && self.reading.unit() == Unit::Document;
        if !is_one || self.only_counts() {
            return None;
        }
        Some(match self.verify.measure() {
            None => "distance\tsimilarity\tkey",
            Some(TextMeasure::Words) => "distance\tsimilarity\twords\tkey",
            Some(TextMeasure::Cosine) => "distance\tsimilarity\tcosine\tkey",
        })
    }

    /// The files that are looked for, or read for their texts.
    fn inputs(&self) -> Vec<&Path> {
        let Self { target, verify, .. } = self;
        let inputs = target.file.iter().chain(&target.input);
        inputs.map(PathBuf::as_path).chain(verify.texts()).collect()
    }
}

impl Verb for ExplainArguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let snapshot = database.snapshot()?;
        let session = QuerySession::new(&self.query, database, &snapshot, output.console())?;
        let Some(document) = session.document()? else {
            return Ok(Answer::No);
        };
        let Some(query) = session.query(&document) else {
            output.complain("the text is too short to judge, so nothing is read for it");
            return Ok(Answer::No);
        };
        let (matches, explanation) = snapshot.explain(&query)?;
        print_explanation(&explanation, output);
        Ok(session.answer(matches.total() > 0))
    }

    fn inputs(&self) -> Vec<&Path> {
        self.query.inputs()
    }
}

impl Arguments {
    /// Whether a fingerprint without a sketch cannot be looked for.
    fn needs_sketches(&self) -> bool {
        self.near.bounds.min_similarity.unwrap_or(0.0) > 0.0 || self.order == Order::Similarity
    }

    fn query(&self, document: &QueryDocument) -> Option<Query> {
        let query = Query::new(document.fingerprint?)
            .with_sketch(document.sketch)
            .near(&self.near)
            .order(self.order);
        Some(match self.nearest {
            Some(n) => query.nearest(n),
            None => query.limit(self.limit),
        })
    }

    fn only_counts(&self) -> bool {
        self.limit == 0
    }
}

/// A document that a query looks for, or a unit of it. It need not be stored.
#[derive(Default)]
struct QueryDocument {
    key: Option<Vec<u8>>,
    /// `None` if the text is too short to judge.
    fingerprint: Option<Fingerprint>,
    /// `None` if only the fingerprint is known.
    sketch: Option<Sketch>,
    /// The text, if it is there and needed.
    text: Option<Arc<str>>,
}

impl QueryDocument {
    /// A document with its fingerprint and its sketch, unless its text was too short for them.
    fn new(
        key: Option<Vec<u8>>,
        text: Option<Arc<str>>,
        made: Option<(Fingerprint, Option<Sketch>)>,
    ) -> Self {
        let (fingerprint, sketch) = made.unzip();
        Self {
            key,
            fingerprint,
            sketch: sketch.flatten(),
            text,
        }
    }
}

/// The queries of a command: its arguments, the database, and the texts that matches are compared by.
struct QuerySession<'a> {
    arguments: &'a Arguments,
    database: &'a Database,
    snapshot: &'a Snapshot,
    verification: Option<Arc<Verification>>,
    console: Console,
}

impl<'a> QuerySession<'a> {
    fn new(
        arguments: &'a Arguments,
        database: &'a Database,
        snapshot: &'a Snapshot,
        console: &Console,
    ) -> Result<Self, Failure> {
        let Arguments {
            target,
            reading,
            verify,
            ..
        } = arguments;
        if verify.is_given() && target.fingerprint.is_some() {
            return Err(
                "`--verify` compares texts, and a fingerprint has none: ask by --text, --file, --key or \
                        --input"
                    .into(),
            );
        }
        if target.input.is_none() && arguments.scheme.is_some() {
            return Err("--scheme is for the fingerprints of `--input`".into());
        }
        let reads_target = target.input.is_some() || target.file.is_some();
        if !reads_target {
            let with_texts = verify.texts().is_some();
            reading.ensure_no_record("the records of `--input` and `--file`", with_texts)?;
        }
        if !reads_target && !verify.reads_file() {
            reading.ensure_only_unit("what `--input`, `--file` or `--texts` reads")?;
        }
        verify.check(reading, target.file.iter().chain(&target.input), console)?;
        let verification = verify.open(reading, database, console)?;
        Ok(Self {
            arguments,
            database,
            snapshot,
            verification,
            console: console.clone(),
        })
    }

    /// Which contents are taken. Ready fingerprints are of the scheme `named`.
    fn rule(&self, named: Option<Scheme>) -> Result<Fingerprinting, Error> {
        let rule = Fingerprinting::new(self.database.scheme(), named)?;
        Ok(rule.sketch_size(self.database.sketch_size()))
    }

    /// Which records of an input are taken.
    fn rule_of_input(&self) -> Result<Fingerprinting, Error> {
        let rule = self.rule(self.arguments.scheme)?;
        // If the database has no sketches, no record can be answered, and the first query says so.
        let has_sketches = self.database.sketch_size() != SketchSize::None;
        Ok(rule.needs_sketches(has_sketches && self.arguments.needs_sketches()))
    }

    /// The document of a record. If the record is cut into units, each unit that is not too short.
    fn documents_of(
        &self,
        record: Record,
        rule: Fingerprinting,
    ) -> Result<Vec<QueryDocument>, Rejected> {
        let is_cut = self.arguments.reading.unit() != Unit::Document;
        let mut documents = Vec::new();
        for record in record.into_units()? {
            let text = match self.verification {
                Some(_) => record.text(rule).map(Arc::from),
                None => None,
            };
            let key = record.key().map(<[u8]>::to_vec);
            let made = record.fingerprint_and_sketch(rule)?;
            if made.is_some() || !is_cut {
                documents.push(QueryDocument::new(key, text, made));
            }
        }
        Ok(documents)
    }

    /// The one document of the arguments. If it is a key that is not stored, prints a message and returns `None`.
    fn document(&self) -> Result<Option<QueryDocument>, Failure> {
        let target = &self.arguments.target;
        if self.arguments.reading.unit() != Unit::Document {
            return Err(
                "only the texts of a query are cut into units: `--unit` needs --text, --file or --input \
                        of `query`"
                    .into(),
            );
        }
        if target.input.is_some() {
            return Err(
                "one fingerprint, text or document at a time is explained, not the records of an input"
                    .into(),
            );
        }

        if let Some(path) = &target.file {
            return self.document_of_file(path).map(Some);
        }
        if let Some(key) = &target.key {
            return self.stored_document(key.as_encoded_bytes());
        }
        let Some(text) = &target.text else {
            let fingerprint = target.fingerprint;
            return Ok(Some(QueryDocument {
                fingerprint,
                ..QueryDocument::default()
            }));
        };
        let made = self.database.fingerprinter()?.fingerprint_and_sketch(text);
        Ok(Some(QueryDocument::new(None, self.needed(text), made)))
    }

    fn document_of_file(&self, path: &Path) -> Result<QueryDocument, Failure> {
        let rule = self.rule(None)?;
        // A file is read as `ingest` reads it. So what it has stored of the file is found.
        let options = self.arguments.reading.options().only_content();
        let mut records = self.console.records(&[path], options)?;
        let mut documents = Vec::new();
        while documents.len() <= 1 {
            let chunk = records.next_chunk(|record| self.documents_of(record, rule))?;
            if chunk.is_empty() {
                break;
            }
            for read in chunk {
                documents.extend(read.map_err(Error::from)?);
            }
        }
        if documents.len() > 1 {
            return Err(format!(
                "{}: it holds several documents; `--input` asks for each of them, and `--file` for one",
                path.display()
            )
            .into());
        }
        Ok(QueryDocument {
            key: None,
            ..documents.pop().unwrap_or_default()
        })
    }

    fn stored_document(&self, key: &[u8]) -> Result<Option<QueryDocument>, Failure> {
        let Some(document) = self.snapshot.get(key)? else {
            self.console
                .complain(&format!("{}: no such key", printable(key)));
            return Ok(None);
        };
        let text = match &self.verification {
            Some(verification) => verification.text_of(&document)?,
            None => None,
        };
        Ok(Some(QueryDocument {
            key: Some(key.to_vec()),
            fingerprint: document.fingerprint(),
            sketch: document.sketch().copied(),
            text: text.map(Arc::from),
        }))
    }

    /// What was looked for in vain.
    fn no_match_message(&self, document: &QueryDocument) -> String {
        let near = &self.arguments.near;
        let mut max_distance = near.bounds.max_distance;
        let mut least = near.bounds.min_similarity;
        if self.arguments.nearest.is_none() {
            max_distance = max_distance.or(Some(self.database.max_distance()));
            least = least.or(self.database.min_similarity());
        }
        let mut message = "no match".to_owned();
        if let Some(max_distance) = max_distance {
            message += &format!(" within distance {max_distance}");
        }
        let least = least.unwrap_or(0.0);
        if document.sketch.is_some() && least > 0.0 {
            message += &format!(" and of similarity {least} or more");
        }
        if near.since.is_some() {
            message += " that was seen then or later";
        }
        if !near.scope.is_empty() {
            let names = near.scope.iter().map(|name| match name.is_empty() {
                true => "\"\"",
                false => name,
            });
            message += &format!(" in scope {}", names.collect::<Vec<_>>().join(", "));
        }
        message
    }

    /// Looks for the text of a document that brings none, by its key.
    fn find_text(&self, document: &mut QueryDocument) -> Result<(), Failure> {
        if let Some(verification) = &self.verification
            && let Some(fingerprint) = document.fingerprint
            && document.text.is_none()
        {
            let key = document.key.clone().unwrap_or_default();
            let stored = Document::new(key, Some(fingerprint));
            document.text = verification.text_of(&stored)?.map(Arc::from);
        }
        Ok(())
    }

    /// The query for a document. `None` if its text is too short to judge.
    fn query(&self, document: &QueryDocument) -> Option<Query> {
        let query = self.arguments.query(document)?;
        let Some(verification) = self.verification.clone() else {
            return Some(query);
        };
        let text = document.text.clone();
        Some(query.verify(move |stored| verification.matches(text.as_deref(), stored)))
    }

    /// A text that is needed only if texts are compared.
    fn needed(&self, text: &str) -> Option<Arc<str>> {
        self.verification.as_ref()?;
        Some(text.into())
    }

    /// The matches, with the values of their texts if those are compared.
    fn list<'m>(
        &self,
        document: &QueryDocument,
        matches: &'m Matches,
    ) -> Result<MatchList<'m>, Failure> {
        match &self.verification {
            Some(verification) => verification.list(document.text.as_deref(), matches),
            None => Ok(MatchList::new(matches)),
        }
    }

    /// Whether texts were to be compared that are missing. Says which, so it is called once, at the end.
    fn any_without_text(&self) -> bool {
        match &self.verification {
            Some(verification) => verification.complain_of_missing() > 0,
            None => false,
        }
    }

    /// The answer of the command. If nothing matched, a document without a text could be a match.
    fn answer(&self, any_match: bool) -> Answer {
        match self.any_without_text() {
            true if !any_match => Answer::CouldNotTell,
            _ => Answer::yes_if(any_match),
        }
    }
}

impl QuerySession<'_> {
    /// Prints one JSON object, or one line per match. If the limit is 0, the line is the total.
    fn print_matches(
        &self,
        document: &QueryDocument,
        matches: &Matches,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let list = self.list(document, matches)?;
        if output.is_json() {
            output.print_json(&document.answer(&list));
            return Ok(());
        }
        if self.arguments.only_counts() {
            output.print_line(&total_text(matches));
            return Ok(());
        }
        for row in list.rows() {
            output.print_line(&row);
        }
        let listed = matches.as_slice().len();
        if matches.total() > listed as u64 {
            output.flush()?;
            let total = total_text(matches);
            output.remark(&format!(
                "{listed} of {total} matches shown; --limit shows more"
            ));
        }
        Ok(())
    }

    /// The units of a text that are not too short, by their numbers.
    fn units_of_text(&self, text: &str) -> Result<Vec<QueryDocument>, Failure> {
        let fingerprinter = self.database.fingerprinter()?;
        let units = self.arguments.reading.unit().cut(text);
        let mut documents = Vec::new();
        for (number, unit) in (1..).zip(units) {
            let made = fingerprinter.fingerprint_and_sketch(unit);
            if made.is_some() {
                let key = Some(format!("#{number}").into_bytes());
                documents.push(QueryDocument::new(key, self.needed(unit), made));
            }
        }
        Ok(documents)
    }

    /// Looks for documents in order, one line each. Returns whether there was any match.
    fn query_all(&self, documents: &[QueryDocument], output: &mut Output) -> Result<bool, Failure> {
        let mut any_match = false;
        for documents in documents.chunks(ANSWERED_TOGETHER) {
            if output.is_closed() {
                break;
            }
            any_match |= self.query_some(documents, output)?;
        }
        Ok(any_match)
    }

    fn query_some(
        &self,
        documents: &[QueryDocument],
        output: &mut Output,
    ) -> Result<bool, Failure> {
        let mut queries: Vec<Query> = Vec::new();
        for document in documents {
            queries.extend(self.query(document));
        }
        let mut answers = self.snapshot.query_batch(&queries)?.into_iter();
        let mut any_match = false;
        for document in documents {
            let matches = match document.fingerprint {
                Some(_) => answers.next().unwrap_or_default(),
                None => Matches::default(),
            };
            any_match |= matches.total() > 0;
            if output.is_json() {
                let list = self.list(document, &matches)?;
                output.print_json(&document.answer(&list));
            } else if self.arguments.only_counts() {
                output.print_line(&document.total_line(&matches));
            } else {
                let list = self.list(document, &matches)?;
                output.print_line(&document.line(&matches, &list));
            }
        }
        output.flush()?;
        Ok(any_match)
    }

    /// Looks for all records of a file in order, one line for each record or each of its units. If a record is
    /// rejected or a text is missing, the answer of the command is "could not tell". With "no match", a caller would
    /// take the rejected record for a new document.
    fn query_records(&self, mut records: Records, output: &mut Output) -> CommandResult {
        let rule = self.rule_of_input()?;
        let read = records.progress();
        let progress = output.console().progress_of("bytes");
        let mut any_match = false;
        let lists = Lists::new(output.console());
        let mut rejections = Rejections::new(output.console());
        let mut any_rejected = false;
        while !output.is_closed() {
            let chunk = records.next_chunk(|record| {
                lists.look_at(&record);
                self.documents_of(record, rule)
            })?;
            if chunk.is_empty() {
                break;
            }
            let mut waiting = Vec::new();
            for record in chunk {
                match record {
                    Ok(documents) => {
                        for mut document in documents {
                            self.find_text(&mut document)?;
                            waiting.push(document);
                        }
                    }
                    Err(rejected) => {
                        any_rejected = true;
                        any_match |= self.query_all(&std::mem::take(&mut waiting), output)?;
                        rejections.show(&rejected);
                        rejections::print(&rejected, output);
                    }
                }
            }
            any_match |= self.query_all(&waiting, output)?;
            _ = progress.update(read.bytes_read(), read.bytes_total());
        }
        drop(progress);
        lists.finish();
        rejections.finish()?;
        output.console().ensure_wanted()?;
        if self.any_without_text() || any_rejected {
            return Ok(Answer::CouldNotTell);
        }
        Ok(Answer::yes_if(any_match))
    }
}

/// Queries that are answered before the program looks whether somebody wants the others.
const ANSWERED_TOGETHER: usize = 1_024;

impl QueryDocument {
    fn answer(&self, list: &MatchList<'_>) -> Value {
        let mut object = key_fields(self.key.as_deref());
        add_fingerprint(&mut object, self.fingerprint);
        list.add_fields(&mut object);
        object
    }

    fn name(&self) -> String {
        match &self.key {
            Some(key) => printable(key).into_owned(),
            None => "(no key)".to_owned(),
        }
    }

    /// The total, a tab and the key, as the lines of a single document have their keys last.
    fn total_line(&self, matches: &Matches) -> String {
        let total = match self.fingerprint {
            Some(_) => total_text(matches),
            None => "too short".to_owned(),
        };
        format!("{total}\t{}", self.name())
    }

    fn line(&self, matches: &Matches, list: &MatchList<'_>) -> String {
        let name = self.name();
        match self.fingerprint {
            None => format!("{name} is too short to judge"),
            Some(_) if matches.total() == 0 => format!("{name} is near nothing"),
            Some(_) => format!("{name} is near {}", list.line()),
        }
    }
}

fn total_text(matches: &Matches) -> String {
    match matches.total_is_exact() {
        true => matches.total().to_string(),
        false => format!("at least {}", matches.total()),
    }
}

// How a query was answered, as `simdb explain` prints it.

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 100.0
}

fn print_explanation(explanation: &Explanation, output: &mut Output) {
    if output.is_json() {
        output.print_json(&explanation_object(explanation));
        return;
    }
    output.print_line(&format!(
        "plan {}, max distance {}; a range is read in {}",
        explanation.plan,
        explanation.max_distance,
        counted(explanation.sources, "level")
    ));
    if explanation.probes.is_empty() {
        output.print_line("all fingerprints are compared");
    }
    for probe in &explanation.probes {
        output.print_line(&format!(
            "table {}: {} for fingerprints that differ in up to {} of the first {} bits; {:.1} candidates expected, \
             {} found",
            probe.table,
            counted(probe.ranges, "range"),
            probe.flips,
            probe.prefix_bits,
            probe.candidates_expected,
            probe.candidates
        ));
    }
    output.print_line(&format!(
        "in all {:.1} candidates expected, {} found in {}; near: {}, {}",
        explanation.candidates_expected,
        explanation.candidates,
        counted(explanation.blocks, "block"),
        counted(explanation.near, "fingerprint"),
        counted(explanation.total, "document")
    ));
    output.print_line(&format!(
        "time: {} us expected, {} us taken, {} us when repeated",
        micros(explanation.expected),
        micros(explanation.first),
        micros(explanation.again)
    ));
}

fn explanation_object(explanation: &Explanation) -> Value {
    let mut probes = Vec::new();
    for probe in &explanation.probes {
        probes.push(json!({
            "table": probe.table,
            "prefix_bits": probe.prefix_bits,
            "flips": probe.flips,
            "ranges": probe.ranges,
            "candidates_expected": probe.candidates_expected,
            "candidates": probe.candidates,
        }));
    }
    json!({
        "plan": explanation.plan,
        "max_distance": explanation.max_distance,
        "sources": explanation.sources,
        "probes": probes,
        "candidates_expected": explanation.candidates_expected,
        "candidates": explanation.candidates,
        "blocks": explanation.blocks,
        "near": explanation.near,
        "total": explanation.total,
        "expected_us": micros(explanation.expected),
        "first_us": micros(explanation.first),
        "again_us": micros(explanation.again),
    })
}
