//! Corpus: cleans files of records, and proves that they are clean. The answers are made of the classes of
//! simdb/_corpus.py.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use simdb::dedup::{
    Audit, AuditFault, AuditReport, AuditVerdict, Dedup, DedupEvent, DedupStep, DedupTotals,
    InputRecords, KeptPair, ListedRecord,
};
use simdb::ingest::{InputFormat, ReadOptions};

use crate::convert::key_text;
use crate::errors::{OrRaise, input_error};
use crate::question::{Given as _, Named};
use crate::signals::{Stop, stoppable};

/// Copies the records of some files that are no near-duplicates of others.
#[pyfunction]
#[pyo3(signature = (inputs, output, **named))]
#[pyo3(
    text_signature = "(inputs, output, *, removed=None, annotate=False, drop_unjudged=False, database=None, \
                      again=False, max_distance=None, min_similarity=None, survivor=None, connected=False, \
                      scheme=None, sketch_bytes=None, format='auto', key_field=None, text_field=None, \
                      html_field=None, ignore_fields=(), glob=(), max_record_bytes=None, progress=None)"
)]
pub(crate) fn dedup<'py>(
    py: Python<'py>,
    inputs: &Bound<'py, PyAny>,
    output: PathBuf,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = Named::new(py, named)?;
    let mut dedup = Dedup::new(several::<PathBuf>(inputs)?, output)
        .given(named.take_as::<PathBuf>("removed")?, Dedup::removed)
        .given(named.take_as("annotate")?, Dedup::annotate)
        .given(named.take_as("drop_unjudged")?, Dedup::drop_unjudged)
        .given(named.take_as::<PathBuf>("database")?, Dedup::database)
        .given(named.take_as("again")?, Dedup::again)
        .given(named.take_scheme()?, Dedup::scheme)
        .given(named.take_sketch_size()?, Dedup::sketch_size);
    dedup = dedup
        .options(take_reading(py, &named)?)
        .clustering(named.take_clustering(named.take_bounds()?)?);
    let progress = named.take("progress")?.map(Bound::unbind);
    named.end("dedup")?;
    let (totals, watch) = watched(py, progress, |stop, watch| {
        let dedup = dedup.stop_when(move || stop.is_set());
        dedup.run(|event| watch.observe(&event))
    })?;
    totals_of(py, &totals, watch)
}

/// Proves that files of records were cleaned as a list of the removed records says.
#[pyfunction]
#[pyo3(signature = (clean, removed, **named))]
#[pyo3(
    text_signature = "(clean, removed, *, inputs=None, inputs_in=None, database=None, max_distance=None, \
                      min_similarity=None, survivor=None, scheme=None, sketch_bytes=None, format='auto', \
                      key_field=None, text_field=None, html_field=None, ignore_fields=(), glob=(), \
                      max_record_bytes=None, progress=None)"
)]
pub(crate) fn audit<'py>(
    py: Python<'py>,
    clean: &Bound<'py, PyAny>,
    removed: PathBuf,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = Named::new(py, named)?;
    let mut audit = Audit::new(several::<PathBuf>(clean)?, removed);
    if let Some(inputs) = named.take_by("inputs", several::<PathBuf>)? {
        if inputs.is_empty() {
            let message = "inputs names none; without it, the inputs that the list names are read";
            return Err(PyValueError::new_err(message));
        }
        audit = audit.inputs(inputs);
    }
    audit = audit
        .given(named.take_as::<PathBuf>("inputs_in")?, Audit::inputs_in)
        .given(named.take_as::<PathBuf>("database")?, Audit::database)
        .given(named.take_scheme()?, Audit::scheme)
        .given(named.take_sketch_size()?, Audit::sketch_size)
        .given(named.take_survivors()?, Audit::survivor);
    audit = audit
        .options(take_reading(py, &named)?)
        .near(named.take_bounds()?);
    let progress = named.take("progress")?.map(Bound::unbind);
    named.end("audit")?;
    let (report, _) = watched(py, progress, |stop, watch| {
        let audit = audit.stop_when(move || stop.is_set());
        audit.run(|event| watch.observe(&event))
    })?;
    Classes::new(py)?.report(&report)
}

/// One of something, or several.
fn several<T>(given: &Bound<'_, PyAny>) -> PyResult<Vec<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    if let Ok(one) = given.extract::<T>() {
        return Ok(vec![one]);
    }
    let mut all = Vec::new();
    for one in given.try_iter()? {
        all.push(one?.extract::<T>().map_err(Into::into)?);
    }
    Ok(all)
}

fn take_several(named: &Named<'_>, name: &str) -> PyResult<Vec<String>> {
    Ok(named.take_by(name, several)?.unwrap_or_default())
}

/// How inputs are read.
fn take_reading(py: Python<'_>, named: &Named<'_>) -> PyResult<ReadOptions> {
    let mut options = ReadOptions::new();
    if let Some(name) = named.take_as::<String>("format")? {
        let Some(format) = InputFormat::from_name(&name) else {
            let message = format!("there is no format {name:?} of inputs");
            return Err(input_error(py, &message, None));
        };
        options = options.format(format);
    }
    options = options
        .given(
            named.take_as::<String>("key_field")?,
            ReadOptions::key_field,
        )
        .given(
            named.take_as::<String>("text_field")?,
            ReadOptions::text_field,
        )
        .given(
            named.take_as::<String>("html_field")?,
            ReadOptions::html_field,
        )
        .given(
            named.take_as("max_record_bytes")?,
            ReadOptions::max_record_bytes,
        );
    for field in take_several(named, "ignore_fields")? {
        options = options.ignore_field(field);
    }
    for pattern in take_several(named, "glob")? {
        options = options.glob(pattern);
    }
    Ok(options)
}

/// How many messages about rejected records and about inputs that failed are kept.
const MOST: usize = 10;
/// The least time between two calls of `progress` for one step.
const PAUSE: Duration = Duration::from_millis(100);

/// What happens during long work: reports progress, and keeps the first messages.
#[derive(Default)]
struct Watch {
    progress: Option<Py<PyAny>>,
    /// The step that was reported last, and when.
    reported: Option<(DedupStep, Instant)>,
    /// What `progress` has raised. Then the work is told to stop.
    raised: Option<PyErr>,
    stop: Stop,
    rejections: Vec<String>,
    failures: Vec<String>,
}

impl Watch {
    fn observe(&mut self, event: &DedupEvent<'_>) {
        match event {
            DedupEvent::Rejected(rejected) if self.rejections.len() < MOST => {
                self.rejections.push(rejected.to_string());
            }
            DedupEvent::Failed { error, .. } if self.failures.len() < MOST => {
                self.failures.push(error.to_string());
            }
            DedupEvent::Progress { step, done, all } => self.report(*step, *done, *all),
            _ => {}
        }
    }

    fn report(&mut self, step: DedupStep, done: u64, all: u64) {
        let Some(progress) = &self.progress else {
            return;
        };
        let is_early = match self.reported {
            Some((reported, when)) => reported == step && done < all && when.elapsed() < PAUSE,
            None => false,
        };
        if is_early || self.raised.is_some() {
            return;
        }
        let name = match step {
            DedupStep::Reading => "reading",
            DedupStep::Comparing => "comparing",
            DedupStep::Writing => "writing",
            _ => "storing",
        };
        let called = Python::attach(|py| progress.call1(py, (name, done, all)).map(drop));
        if let Err(raised) = called {
            self.raised = Some(raised);
            self.stop.set();
        }
        self.reported = Some((step, Instant::now()));
    }
}

/// Does long work that reports its progress to a function of Python. If that raises, the work ends.
fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Stop, &mut Watch) -> simdb::Result<T> + Send,
) -> PyResult<(T, Watch)> {
    let (done, mut watch) = stoppable(py, |stop| {
        let mut watch = Watch {
            progress,
            stop: stop.clone(),
            ..Watch::default()
        };
        let done = work(stop.clone(), &mut watch);
        Ok((done, watch))
    })?;
    match watch.raised.take() {
        Some(raised) => Err(raised),
        None => Ok((done.or_raise(py)?, watch)),
    }
}

fn totals_of<'py>(
    py: Python<'py>,
    totals: &DedupTotals,
    watch: Watch,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("records", totals.records)?;
    fields.set_item("kept", totals.kept())?;
    fields.set_item("removed", totals.removed)?;
    fields.set_item("removed_as_equal", totals.removed_as_equal)?;
    fields.set_item("removed_as_known", totals.removed_as_known)?;
    fields.set_item("too_short", totals.too_short)?;
    fields.set_item("rejected", totals.rejected)?;
    fields.set_item("dropped_unjudged", totals.dropped_unjudged)?;
    fields.set_item("annotated", totals.annotated)?;
    fields.set_item("failed_inputs", totals.failed)?;
    fields.set_item("seconds", totals.elapsed.as_secs_f64())?;
    fields.set_item("rejections", PyTuple::new(py, watch.rejections)?)?;
    fields.set_item("failures", PyTuple::new(py, watch.failures)?)?;
    let classes = PyModule::import(py, "simdb._corpus")?;
    classes.getattr("DedupTotals")?.call((), Some(&fields))
}

/// The classes of the answers.
struct Classes<'py>(Bound<'py, PyModule>);

impl<'py> Classes<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        PyModule::import(py, "simdb._corpus").map(Self)
    }

    fn record(&self, record: &ListedRecord) -> PyResult<Bound<'py, PyAny>> {
        let py = self.0.py();
        let (input, number) = match &record.place {
            Some((input, number)) => (Some(key_text(py, input)?), Some(*number)),
            None => (None, None),
        };
        let key = record.key.as_ref().map(|key| key_text(py, key));
        let class = self.0.getattr("ListedRecord")?;
        class.call1((input, number, key.transpose()?))
    }

    /// The plain data of each of some things, in a tuple.
    fn each<T>(
        &self,
        all: &[T],
        make: impl Fn(&Self, &T) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut made = Vec::with_capacity(all.len());
        for one in all {
            made.push(make(self, one)?);
        }
        PyTuple::new(self.0.py(), made)
    }

    fn pair(&self, pair: &KeptPair) -> PyResult<Bound<'py, PyAny>> {
        let a = self.record(&pair.a)?;
        let b = self.record(&pair.b)?;
        let class = self.0.getattr("KeptPair")?;
        class.call1((a, b, pair.distance, pair.similarity))
    }

    fn fault(&self, fault: &AuditFault) -> PyResult<Bound<'py, PyAny>> {
        self.0.getattr("AuditFault")?.call1((
            fault.kind.name(),
            fault.line,
            self.record(&fault.told.record)?,
            self.record(&fault.told.survivor)?,
            fault.told.distance,
            fault.told.similarity,
            fault.found.map(|(distance, _)| distance),
            fault.found.and_then(|(_, similarity)| similarity),
        ))
    }

    fn inputs(&self, inputs: &InputRecords) -> PyResult<Bound<'py, PyAny>> {
        self.0.getattr("AuditInputs")?.call1((
            inputs.records,
            inputs.unjudged,
            inputs.lost,
            self.each(&inputs.lost_records, Self::record)?,
            inputs.foreign,
            self.each(&inputs.foreign_records, Self::record)?,
        ))
    }

    fn report(&self, report: &AuditReport) -> PyResult<Bound<'py, PyAny>> {
        let py = self.0.py();
        let verdict = match report.verdict() {
            AuditVerdict::Proven => "proven",
            AuditVerdict::Refuted => "refuted",
            _ => "open",
        };
        let inputs = report.inputs.as_ref().map(|inputs| self.inputs(inputs));
        let fields = PyDict::new(py);
        fields.set_item("verdict", verdict)?;
        fields.set_item("scheme", report.scheme.name())?;
        fields.set_item("sketch_bytes", report.sketch_size.bytes())?;
        fields.set_item("max_distance", report.max_distance)?;
        fields.set_item("min_similarity", report.min_similarity)?;
        fields.set_item("kept", report.kept)?;
        fields.set_item("kept_too_short", report.kept_too_short)?;
        fields.set_item("kept_unjudged", report.kept_unjudged)?;
        fields.set_item("near_pairs", report.near_pairs)?;
        fields.set_item("near", self.each(&report.near, Self::pair)?)?;
        fields.set_item("removed", report.removed)?;
        fields.set_item("unchecked", report.unchecked)?;
        fields.set_item("greatest_distance", report.greatest_distance)?;
        fields.set_item("least_similarity", report.least_similarity)?;
        fields.set_item("faults", report.faults)?;
        fields.set_item("faulty", self.each(&report.faulty, Self::fault)?)?;
        fields.set_item("inputs", inputs.transpose()?)?;
        fields.set_item("seconds", report.elapsed.as_secs_f64())?;
        let class = self.0.getattr("AuditReport")?;
        class.call((), Some(&fields))
    }
}
