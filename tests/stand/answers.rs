//! Everything that a database answers, so that a damaged one can be compared with a sound one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;

use crate::database::{
    Clustering, Database, Expiry, Near, Order, PairEvent, Query, Snapshot, Survivor,
};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Questions {
    /// Documents, keys, queries, sources.
    Cheap,
    /// Also pairs, clusters, and what an expiry would remove.
    All,
}

/// The answers to fixed questions, by the question.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<String, Result<String>>);

impl Answers {
    /// Asks about the documents of these keys, and about all.
    pub(super) fn of(database: &Database, keys: &[String], questions: Questions) -> Self {
        let mut answers = Self::default();
        match database.snapshot() {
            Ok(snapshot) => answers.ask(&snapshot, keys, questions),
            Err(error) => answers.note("snapshot", Err::<(), _>(error)),
        }
        answers
    }

    fn ask(&mut self, snapshot: &Snapshot, keys: &[String], questions: Questions) {
        let mut documents = Vec::new();
        let mut failed = None;
        for document in snapshot.documents() {
            match document {
                Ok(document) => documents.push(document),
                Err(error) => failed = Some(error),
            }
        }
        for document in &documents {
            let key = String::from_utf8_lossy(document.key());
            self.note(&format!("listed {key}"), Ok(document));
        }
        self.note("listed in all", failed.map_or(Ok(documents.len()), Err));
        for key in keys {
            self.note(&format!("get {key}"), snapshot.get(key));
        }
        for (at, query) in queries(keys).iter().enumerate() {
            self.note(&format!("query {at}"), snapshot.query(query));
        }
        let batch = snapshot.query_batch(&queries(keys));
        self.note("batch", batch);
        self.note("sources", snapshot.sources().map(|it| told(&it)));
        self.note("fingerprints", snapshot.count_fingerprints());
        let counts = snapshot.stats().map(|it| (it.documents, it.too_short));
        self.note("counts", counts);
        if questions == Questions::All {
            self.ask_costly(snapshot);
        }
    }

    fn ask_costly(&mut self, snapshot: &Snapshot) {
        for near in [Near::within(3), Near::within(8).min_similarity(0.5)] {
            let mut pairs = Vec::new();
            let run = snapshot.pairs(near.clone()).run(|event| {
                if !matches!(event, PairEvent::Progress { .. }) {
                    pairs.push(format!("{event:?}"));
                }
                ControlFlow::Continue(())
            });
            // Where a table is cut decides on their order.
            pairs.sort();
            self.note(&format!("pairs {near:?}"), run.map(|()| pairs));
            let clustering = Clustering::new()
                .near(near.clone())
                .survivor([Survivor::Latest, Survivor::ShortestKey]);
            let mut clusters = Vec::new();
            let run = snapshot.clusters(&clustering, |event| {
                if let crate::ClusterEvent::Cluster(cluster) = event {
                    clusters.push(format!("{cluster:?}"));
                }
                ControlFlow::Continue(())
            });
            clusters.sort();
            self.note(&format!("clusters {near:?}"), run.map(|_| clusters));
        }
        self.note("groups", snapshot.largest_groups(5, 1_000));
        self.note("to expire", snapshot_expiry(snapshot));
    }

    fn note<T: Debug>(&mut self, question: &str, answer: Result<T>) {
        let answer = answer.map(|it| format!("{it:?}"));
        self.0.insert(question.to_owned(), answer);
    }

    /// The first error among the answers.
    pub(super) fn error(&self) -> Option<&Error> {
        self.0.values().find_map(|answer| answer.as_ref().err())
    }

    /// An answer that is neither an error nor the one of a sound database. A document that is not listed shows in the
    /// number of those that are.
    pub(super) fn wrong(&self, sound: &Self) -> Option<String> {
        for (question, answer) in &self.0 {
            let right = sound.0.get(question).map(Result::as_ref);
            match (answer, right) {
                (Err(_), _) => {}
                (Ok(given), Some(Ok(right))) if given == right => {}
                (Ok(given), right) => return Some(format!("{question}: {given}, not {right:?}")),
            }
        }
        None
    }
}

impl Answers {
    /// As [`wrong`](Self::wrong), but only of questions that begin so, and nothing needs to be there.
    pub(super) fn wrong_of(&self, sound: &Self, beginning: &str) -> Option<String> {
        let questions = self.0.iter().filter(|(it, _)| it.starts_with(beginning));
        for (question, answer) in questions {
            if let (Ok(given), Some(Ok(right))) = (answer, sound.0.get(question))
                && given != right
            {
                return Some(format!("{question}: {given}, not {right}"));
            }
        }
        None
    }
}

fn snapshot_expiry(snapshot: &Snapshot) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    let expiry = Expiry::new().before(50);
    snapshot.to_expire(&expiry, |document: Document| {
        keys.push(String::from_utf8_lossy(document.key()).into_owned());
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

/// Sources without the time of their writing.
fn told(sources: &[crate::source::Source]) -> Vec<String> {
    let told = |it: &crate::source::Source| format!("{:?} {:?}", it.name(), it.place());
    sources.iter().map(told).collect()
}

/// Queries of all kinds.
fn queries(keys: &[String]) -> Vec<Query> {
    let mut queries = Vec::new();
    for at in 0..keys.len().min(24) as u64 {
        let fingerprint = super::flips::fingerprint(at);
        let query = Query::new(Fingerprint::from_bits(fingerprint.bits() ^ (at % 3)));
        let near = Near::within(at as u32 % 5);
        let near = match at % 6 {
            0 => near.scopes(["en"]),
            1 => near.since(40),
            2 => near.min_similarity(0.4),
            _ => near,
        };
        let sketch = super::flips::sketch(at);
        let order = if at % 4 == 1 {
            Order::Similarity
        } else {
            Order::Distance
        };
        queries.push(query.near(near).with_sketch(sketch).order(order));
    }
    let any = Query::new(Fingerprint::from_bits(0)).with_sketch(super::flips::sketch(1));
    for near in [
        Near::within(64),
        Near::within(64).scopes(["en", "de"]),
        Near::within(64).since(60),
        Near::within(64).min_similarity(0.2),
        Near::within(20),
    ] {
        queries.push(any.clone().near(near).limit(1_000));
    }
    for near in [Near::new(), Near::new().scopes(["en"]).since(40)] {
        queries.push(any.clone().near(near).nearest(7));
    }
    queries
}
