"""What came of cleaning files of records, and of an audit of that: plain data."""

from typing import NamedTuple


class DedupTotals(NamedTuple):
    """What came of a cleaning."""

    records: int
    kept: int
    removed: int
    removed_as_equal: int
    removed_as_known: int
    too_short: int
    rejected: int
    dropped_unjudged: int
    annotated: int
    failed_inputs: int
    seconds: float
    rejections: tuple[str, ...]
    failures: tuple[str, ...]


class ListedRecord(NamedTuple):
    """Where a record is, and what it is called."""

    input: str | None
    number: int | None
    key: str | None


class KeptPair(NamedTuple):
    """Two kept records that are near."""

    a: ListedRecord
    b: ListedRecord
    distance: int
    similarity: float | None


class AuditFault(NamedTuple):
    """A removed record of which something is not as the list says."""

    kind: str
    line: int
    record: ListedRecord
    survivor: ListedRecord
    listed_distance: int
    listed_similarity: float | None
    distance: int | None
    similarity: float | None


class AuditInputs(NamedTuple):
    """What came of all records of the inputs."""

    records: int
    unjudged: int
    lost: int
    lost_records: tuple[ListedRecord, ...]
    foreign: int
    foreign_records: tuple[ListedRecord, ...]


class AuditReport(NamedTuple):
    """What an audit has found."""

    verdict: str
    scheme: str
    sketch_bytes: int
    max_distance: int
    min_similarity: float | None
    kept: int
    kept_too_short: int
    kept_unjudged: int
    near_pairs: int
    near: tuple[KeptPair, ...]
    removed: int
    unchecked: int
    greatest_distance: int
    least_similarity: float | None
    faults: int
    faulty: tuple[AuditFault, ...]
    inputs: AuditInputs | None
    seconds: float


for _class in (DedupTotals, ListedRecord, KeptPair, AuditFault, AuditInputs, AuditReport):
    _class.__module__ = "simdb"
del _class
