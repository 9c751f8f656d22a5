//! What simdb tells those who watch a program: spans and events of the crate `tracing`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use simdb::{Error, Expiry};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::support::{Folder, TestResult, document, every, go_on, insert_all, query_of};

type Fields = HashMap<&'static str, String>;

/// An event with its text and fields, and the span in which it was told.
#[derive(Clone, Debug)]
struct Told {
    span: &'static str,
    path: String,
    fields: Fields,
}

/// Keeps every event that is told in a span.
#[derive(Default)]
struct Collector {
    spans: Mutex<Vec<(&'static str, Fields)>>,
    told: Mutex<Vec<Told>>,
}

thread_local! {
    /// The spans that this thread is in.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

struct Visitor(Fields);

impl Visit for Visitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for &'static Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "simdb"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = Visitor(Fields::new());
        attributes.record(&mut fields);
        let mut spans = self.spans.lock().expect("no thread panicked with it");
        spans.push((attributes.metadata().name(), fields.0));
        span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(id) = INSIDE.with_borrow(|inside| inside.last().copied()) else {
            return;
        };
        let (span, of_span) =
            self.spans.lock().expect("no thread panicked with it")[id as usize - 1].clone();
        let mut fields = Visitor(Fields::new());
        event.record(&mut fields);
        let told = Told {
            span,
            path: of_span["path"].clone(),
            fields: fields.0,
        };
        self.told
            .lock()
            .expect("no thread panicked with it")
            .push(told);
    }

    fn enter(&self, id: &span::Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(id.into_u64()));
    }

    fn exit(&self, _: &span::Id) {
        INSIDE.with_borrow_mut(|inside| _ = inside.pop());
    }
}

/// The collector of the process. Merges are told of by a thread of the database, which has no collector of its own.
fn collector() -> &'static Collector {
    static COLLECTOR: OnceLock<Collector> = OnceLock::new();
    static SET: OnceLock<()> = OnceLock::new();
    let collector = COLLECTOR.get_or_init(Collector::default);
    SET.get_or_init(|| {
        tracing::subscriber::set_global_default(collector).expect("there is no other");
    });
    collector
}

/// What was told of a database in spans of this name.
fn told(path: &Path, span: &str) -> Vec<Told> {
    let told = collector().told.lock().expect("no thread panicked with it");
    told.iter()
        .filter(|it| it.span == span && it.path == path.display().to_string())
        .cloned()
        .collect()
}

/// Asserts that the last event of a span has this text and these fields, and others with numbers.
#[track_caller]
fn assert_told(path: &Path, span: &str, text: &str, fields: &[(&str, &str)], others: &[&str]) {
    let told = told(path, span);
    let Some(last) = told.last() else {
        panic!("nothing was told in {span}")
    };
    assert_eq!(last.fields["message"], text);
    for (name, value) in fields {
        assert_eq!(
            last.fields.get(name).map(String::as_str),
            Some(*value),
            "{name} of {last:?}"
        );
    }
    for name in others.iter().chain(&["elapsed_us"]) {
        assert!(
            last.fields
                .get(name)
                .is_some_and(|it| it.parse::<u64>().is_ok()),
            "{name} of {last:?}"
        );
    }
}

#[test]
fn each_operation_has_a_span_and_an_event_with_its_numbers() -> TestResult {
    collector();
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    let path = database.path().to_owned();
    insert_all(
        &database,
        (0..12).map(|i| document(i.to_string(), i).with_seen(i as i64)),
    )?;
    assert_told(
        &path,
        "commit",
        "committed",
        &[("stored", "12"), ("deleted", "0")],
        &[],
    );
    database.settle()?;
    assert_told(
        &path,
        "merge_step",
        "merged",
        &[],
        &["sets", "rows", "bytes"],
    );
    let query = query_of(5).near(0);
    database.snapshot()?.query_batch(&[query.clone(), query])?;
    assert_told(
        &path,
        "query_batch",
        "answered",
        &[("queries", "2"), ("matches", "2")],
        &[],
    );
    database.expire(&Expiry::new().before(4), every)?;
    assert_told(&path, "expiry", "expired", &[("removed", "4")], &[]);
    database.snapshot()?.backup(folder.path("copy.simdb"))?;
    assert_told(&path, "backup", "backed up", &[("documents", "8")], &[]);
    database.compact(go_on)?;
    assert_told(
        &path,
        "compaction",
        "compacted",
        &[],
        &["bytes_before", "bytes_after"],
    );
    assert!(database.check()?.is_sound());
    assert_told(
        &path,
        "check",
        "checked",
        &[("documents", "8"), ("problems", "0")],
        &[],
    );
    database.reopen()?;
    assert_told(
        &path,
        "reopening",
        "reopened",
        &[("had_failed", "false")],
        &[],
    );
    Ok(())
}

#[test]
fn a_failure_is_told_with_its_reason() -> TestResult {
    collector();
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let copy = folder.file("copy.simdb", "something")?;
    let failed = database.snapshot()?.backup(&copy);
    let Err(error @ Error::AlreadyExists { .. }) = failed else {
        panic!("{failed:?}")
    };
    let told = told(database.path(), "backup");
    let fields = &told.last().ok_or("nothing was told")?.fields;
    assert_eq!(
        (&fields["message"][..], &fields["error"]),
        ("failed", &error.to_string())
    );
    assert_eq!(fields["operation"], "Backup");
    Ok(())
}
