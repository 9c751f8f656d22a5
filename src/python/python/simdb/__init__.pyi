"""Near-duplicate detection that lives in one file.

    import simdb

    with simdb.open("seen.simdb") as db:
        verdict = db.insert_if_new("https://a.example/", text)
        if verdict.is_duplicate:
            print("nearly", verdict.nearest.key)

Every answer comes when it is durable: a kill at any moment loses none.
Times are Unix seconds or an aware datetime. Fingerprints are integers of 64 bits. Keys are text; bytes that are no
text come back as os.fsdecode would give them, and are taken so.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, SupportsIndex, TypeAlias, final, overload

__all__ = [
    "AuditFault",
    "AuditInputs",
    "AuditReport",
    "BusyError",
    "Client",
    "ClosedError",
    "Cluster",
    "DamagedError",
    "Database",
    "DedupTotals",
    "Document",
    "Error",
    "ExistsError",
    "Fingerprinter",
    "FirstMatch",
    "ForkedError",
    "InputError",
    "KeptPair",
    "ListedRecord",
    "Match",
    "Matches",
    "NotFoundError",
    "NotServedError",
    "OutcomeUnknownError",
    "Overlap",
    "OverlapDocument",
    "OverlapUnit",
    "Pair",
    "ReadOnlyError",
    "Snapshot",
    "StorageError",
    "Ticket",
    "Verdict",
    "__version__",
    "audit",
    "connect",
    "dedup",
    "distance",
    "duplicates",
    "open",
]

__version__: str

_Key: TypeAlias = str | bytes
_Time: TypeAlias = float | datetime
_Path: TypeAlias = str | PathLike[str]
_OnMatch: TypeAlias = Literal["skip", "link", "replace"]
_Change: TypeAlias = Literal["inserted", "replaced", "skipped"]
_Survivor: TypeAlias = Literal["rank", "earliest", "latest", "longest", "shortest_key"]
_Paths: TypeAlias = _Path | Iterable[_Path]
_Format: TypeAlias = Literal["auto", "jsonl", "tsv", "text", "lines", "fingerprints", "warc"]
_Step: TypeAlias = Literal["reading", "comparing", "writing", "storing"]
_Verdict: TypeAlias = Literal["proven", "refuted", "open"]
_Fault: TypeAlias = Literal[
    "no_record", "no_survivor", "not_near", "not_as_told", "survivor_not_kept", "listed_twice"
]
_Unit: TypeAlias = Literal["sentence", "paragraph"]
_Features: TypeAlias = Iterable[tuple[str | bytes, float]]

class _ArrowArray(Protocol):
    """What gives an Arrow array, such as one of pyarrow, polars or nanoarrow."""
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    """What gives a stream of Arrow arrays, such as a chunked array or a series of polars."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _Buffer(Protocol):
    """What gives a buffer of numbers, such as an array of numpy."""
    def __buffer__(self, flags: int, /) -> memoryview: ...

_Column: TypeAlias = _ArrowArray | _ArrowStream | _Buffer

def open(
    path: _Path,
    *,
    create: bool = True,
    read_only: bool = False,
    scheme: str | None = None,
    max_distance: int | None = None,
    min_similarity: float | None = None,
    sketch_bytes: Literal[0, 16, 32] | None = None,
    expected_documents: int | None = None,
    plan: str | None = None,
    cache: float | None = None,
    serve: bool = False,
) -> Database:
    """Opens the database at a path, or creates it.

    What comes after `read_only` and before `cache` is chosen once, when the file is created; a file that exists has its
    own, and another value is an InputError. `cache` is a number of bytes (int), or a share of the memory of the process
    (float, up to 1.0). With `serve`, other processes may connect (see `connect`).

    Raises NotFoundError without `create` if nothing is there, BusyError if another process or handle has the file open,
    and DamagedError if the file is not one of simdb or cannot be read.
    """

def connect(path: _Path, *, timeout: float = 5.0, start: bool = False) -> Client:
    """Connects to the process that has a database open and serves it.

    With `start`, one is started if there is none: `python -P -m simdb serve --until-idle 60`. Waits up to `timeout`
    seconds for it, then raises NotServedError.
    """

@final
class Database:
    """An open file. Any thread may use it. It cannot be pickled, and does not outlive a fork: a process that was forked
    gets ForkedError, and opens for itself."""

    @property
    def path(self) -> Path: ...
    @property
    def scheme(self) -> str: ...
    @property
    def max_distance(self) -> int: ...
    @property
    def min_similarity(self) -> float | None: ...
    @property
    def sketch_bytes(self) -> int:
        """The bytes of the sketch that each document has beside its fingerprint. 0 if there are none."""
    @property
    def closed(self) -> bool: ...
    def close(self) -> None:
        """Waits until everything that was submitted is durable, and closes. A second call does nothing.

        Raises the first error of a commit since the last flush.
        """
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def insert_if_new(
        self,
        key: _Key,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        seen: _Time | None = None,
        repeats: int = 0,
        rank: int | Sequence[int] = (),
        scope: str = "",
        payload: bytes = b"",
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
    ) -> Verdict:
        """Stores a document unless one that is nearly the same is stored, and tells.

        The document is one of `text`, `html`, `fingerprint` and `features` (words and their weights). Its `seen` is
        now if none is given. What is near is said by `max_distance` and what follows; without them it is what the
        database was created with. With `on_match="link"` the document is stored in any case, with `"replace"` if its
        `rank` is above that of all that are near, which are deleted then. With `keep=3`, up to three of a group are
        stored. With `touch=True`, a document that is not stored is counted in the `repeats` of the nearest.

        A document is never near to the stored one of the same key. If it is stored, it replaces that one. So a call
        that was cut off can be made again.

        Other threads run meanwhile. Many threads share one commit. Ctrl-C ends the wait, not the insertion.
        """
    def submit(
        self,
        key: _Key,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        seen: _Time | None = None,
        repeats: int = 0,
        rank: int | Sequence[int] = (),
        scope: str = "",
        payload: bytes = b"",
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
    ) -> Ticket:
        """As insert_if_new, but gives a ticket at once. Answers come in the order of submission.

        Waits only if 20,000 documents or 64 MiB of them are waiting already.
        """
    @overload
    def insert_many_if_new(
        self,
        documents: Iterable[tuple[_Key, str] | tuple[_Key, int] | Document],
        *,
        keys: None = None,
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
        batch: int = 10000,
    ) -> Iterator[Verdict]: ...
    @overload
    def insert_many_if_new(
        self,
        documents: _Column | Iterable[str] | Iterable[int],
        *,
        keys: Sequence[_Key] | _ArrowArray | _ArrowStream,
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
        batch: int = 10000,
    ) -> Iterator[Verdict]:
        """Stores many documents and gives their verdicts, in order. Nothing is done before the first is asked for.

        A document is a pair of its key and its text or fingerprint, or a Document. Or `documents` is one column of
        texts or of fingerprints, from Arrow or a buffer of uint64 such as a numpy array, and `keys` has as many.

        `batch` documents are read, made ready on all cores, decided and committed together; then their verdicts come.
        So what is read from the iterator is durable, and a loop that ends early has stored at most one batch more than
        it saw. A bad document raises InputError with its `index`; nothing of its batch is stored.
        """
    def query(
        self,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
        nearest: int | None = None,
    ) -> Matches:
        """The stored documents that are near, the nearest first. No match is missed. A text that is too short to judge
        is near to nothing.

        With `nearest` in the place of `limit`, that many documents match, the nearest, however far they are. What the
        database was created with does not hold then, but a `max_distance` or `min_similarity` that is given does.
        """
    def overlap(
        self,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        unit: _Unit = "sentence",
        without: _Key | None = None,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
    ) -> Overlap:
        """How much of a text stood elsewhere, in which documents, and where each of its sentences was seen first.

        The database must hold sentences or paragraphs under the keys of their documents, `#` and a number, as
        `simdb ingest --unit sentence` stores them. What is of the document `without` does not count. `limit` documents
        are listed; all are counted, exactly. Of a page the visible text is cut. Ctrl-C stops it.
        """
    def get(self, key: _Key) -> Document | None:
        """The document of a key, or None."""
    def __contains__(self, key: _Key, /) -> bool: ...
    def __len__(self) -> int:
        """The number of documents."""
    def __bool__(self) -> bool:
        """A database is there, also if it is empty."""
    def delete(self, key: _Key) -> Document | None:
        """Removes the document of a key and gives it, or None if there was none."""
    def delete_many(self, keys: Iterable[_Key]) -> int:
        """Removes the documents of many keys, and gives how many there were. They share commits. Ctrl-C stops it, and
        what was removed before is gone."""
    def expire(self, *, before: _Time | None = None, scopes: Iterable[str] | None = None) -> int:
        """Removes the documents that were seen before a time, of some scopes, or both; gives their number. Without
        either it raises TypeError, so that nobody removes everything by a slip. Ctrl-C stops it between two steps."""
    def flush(self) -> None:
        """Waits until everything that was submitted before is durable."""
    def fingerprinter(self) -> Fingerprinter:
        """What makes fingerprints that compare with those in the database."""
    def snapshot(self) -> Snapshot:
        """What is committed now. Later commits do not change it. Close it soon: space that is freed meanwhile is not
        used again."""
    def pairs(
        self,
        max_distance: int | None = None,
        *,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
    ) -> _Pairs:
        """As Snapshot.pairs, of what is committed now."""
    def clusters(
        self,
        max_distance: int | None = None,
        *,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        survivor: Sequence[_Survivor] | None = None,
        connected: bool = False,
    ) -> _Clusters:
        """As Snapshot.clusters, of what is committed now."""
    def delete_duplicates(
        self,
        max_distance: int | None = None,
        *,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        survivor: Sequence[_Survivor] | None = None,
        connected: bool = False,
    ) -> int:
        """Deletes all of each cluster but the survivor, in steps; gives their number. Ctrl-C stops it between two
        steps."""
    def compact(self) -> None:
        """Writes the file anew, without what was deleted. Others read meanwhile, and wait to write."""
    def warm(self) -> None:
        """Puts into memory what queries read, as far as there is room. Others read and write meanwhile."""
    def check(self) -> list[str]:
        """What is wrong with the file. An empty list: it is sound. Raises BusyError while a snapshot or an iterator is
        open."""
    def backup(self, path: _Path) -> None:
        """Writes a dense copy to a new file, while others go on writing."""
    def reopen(self) -> None:
        """Goes on after a StorageError, when its cause is gone."""
    def _serve_until(self, until_idle: float | None, ready: Callable[[Path], object]) -> None: ...

@final
class Client:
    """A connection to the process that serves a database. Any thread may use it. It can be pickled, and outlives a fork:
    it connects anew where it is used. Fingerprints are made here, so texts do not travel.

    If the connection is lost, what was not answered is sent again, in its order, when somebody serves the database
    again, for up to `timeout` seconds; then it raises NotServedError. A document that had been stored then comes back
    as "replaced", which `is_new` counts as new.
    """

    @property
    def path(self) -> Path: ...
    @property
    def scheme(self) -> str: ...
    @property
    def max_distance(self) -> int: ...
    @property
    def min_similarity(self) -> float | None: ...
    @property
    def sketch_bytes(self) -> int:
        """The bytes of the sketch that each document has beside its fingerprint. 0 if there are none."""
    @property
    def closed(self) -> bool: ...
    def close(self) -> None:
        """Waits until everything that was submitted is answered, and ends the connection. A second call does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def __reduce__(self) -> tuple[object, ...]:
        """Where it is unpickled, it connects anew."""
    def insert_if_new(
        self,
        key: _Key,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        seen: _Time | None = None,
        repeats: int = 0,
        rank: int | Sequence[int] = (),
        scope: str = "",
        payload: bytes = b"",
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
    ) -> Verdict:
        """As Database.insert_if_new. If the connection is lost, what was not answered is sent again."""
    def submit(
        self,
        key: _Key,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        seen: _Time | None = None,
        repeats: int = 0,
        rank: int | Sequence[int] = (),
        scope: str = "",
        payload: bytes = b"",
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
    ) -> Ticket:
        """As insert_if_new, but gives a ticket at once. Answers come in the order of submission.

        Waits only if 20,000 documents or 64 MiB of them are waiting already.
        """
    @overload
    def insert_many_if_new(
        self,
        documents: Iterable[tuple[_Key, str] | tuple[_Key, int] | Document],
        *,
        keys: None = None,
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
        batch: int = 1000,
    ) -> Iterator[Verdict]: ...
    @overload
    def insert_many_if_new(
        self,
        documents: _Column | Iterable[str] | Iterable[int],
        *,
        keys: Sequence[_Key] | _ArrowArray | _ArrowStream,
        on_match: _OnMatch = "skip",
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        keep: int = 1,
        touch: bool = False,
        limit: int = 10,
        batch: int = 1000,
    ) -> Iterator[Verdict]:
        """As Database.insert_many_if_new. Other clients may insert between the documents of a batch."""
    def query(
        self,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
        nearest: int | None = None,
    ) -> Matches:
        """The stored documents that are near, the nearest first. No match is missed. A text that is too short to judge
        is near to nothing.

        With `nearest` in the place of `limit`, that many documents match, the nearest, however far they are. What the
        database was created with does not hold then, but a `max_distance` or `min_similarity` that is given does.
        """
    def overlap(
        self,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        unit: _Unit = "sentence",
        without: _Key | None = None,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
    ) -> Overlap:
        """As Database.overlap, with everything that was answered before. A text has at most 960 KiB."""
    def get(self, key: _Key) -> Document | None:
        """The document of a key, or None."""
    def __contains__(self, key: _Key, /) -> bool: ...
    def delete(self, key: _Key) -> Document | None:
        """Removes the document of a key and gives it, or None if there was none."""
    def delete_many(self, keys: Iterable[_Key]) -> int:
        """Removes the documents of many keys, and gives how many there were. They share commits. Ctrl-C stops it, and
        what was removed before is gone."""
    def expire(self, *, before: _Time | None = None, scopes: Iterable[str] | None = None) -> int:
        """Removes the documents that were seen before a time, of some scopes, or both; gives their number. Without
        either it raises TypeError, so that nobody removes everything by a slip."""
    def flush(self) -> None:
        """Waits until everything that was submitted before is durable."""
    def fingerprinter(self) -> Fingerprinter:
        """What makes fingerprints that compare with those in the database."""

@final
class Snapshot:
    """What was committed at one moment. Any thread may use it."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def close(self) -> None:
        """Lets go of what was committed then. Iterators that it gave go on. A second call does nothing."""
    def get(self, key: _Key) -> Document | None:
        """The document of a key, or None."""
    def __contains__(self, key: _Key, /) -> bool: ...
    def __len__(self) -> int:
        """The number of documents."""
    def __bool__(self) -> bool:
        """A snapshot is there, also of an empty database."""
    def __iter__(self) -> Iterator[Document]:
        """All documents, in the order in which they were written. One block of them is in memory at a time."""
    def query(
        self,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        fingerprint: int | None = None,
        features: _Features | None = None,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
        nearest: int | None = None,
    ) -> Matches:
        """As Database.query."""
    def overlap(
        self,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        unit: _Unit = "sentence",
        without: _Key | None = None,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
    ) -> Overlap:
        """As Database.overlap."""
    def query_many(
        self,
        questions: Iterable[str | int] | _Column,
        *,
        max_distance: int | None = None,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        limit: int = 10,
        nearest: int | None = None,
    ) -> list[Matches]:
        """Answers many questions at once, on all cores: of texts, of fingerprints, or of a column of either.

        Ctrl-C stops it.
        """
    def pairs(
        self,
        max_distance: int | None = None,
        *,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        other: Snapshot | None = None,
    ) -> _Pairs:
        """All pairs that are near, each once. Without limits they are those of the database. With `other`, those of
        one document here and one there. To stop early, let the iterator go."""
    def clusters(
        self,
        max_distance: int | None = None,
        *,
        min_similarity: float | None = None,
        since: _Time | None = None,
        scopes: Iterable[str] | None = None,
        survivor: Sequence[_Survivor] | None = None,
        connected: bool = False,
    ) -> _Clusters:
        """The groups of near-duplicates, and which of each survives."""
    def stats(self) -> dict[str, Any]:
        """What the database holds, in numbers."""
    def backup(self, path: _Path) -> None:
        """Writes a dense copy to a new file, while others go on writing."""

class _Pairs(Iterator[Pair], Protocol):
    def close(self) -> None:
        """Ends the search."""

class _Clusters(Iterator[Cluster], Protocol):
    def close(self) -> None:
        """Ends the search."""

@final
class Ticket(Awaitable[Verdict]):
    """The answer to a submission, which comes later. `await` it in a task, or call `result` in a thread. If it is let
    go, the document is stored all the same."""

    def done(self) -> bool:
        """Whether the answer is there."""
    def result(self, timeout: float | None = None) -> Verdict:
        """Waits for the verdict. Raises TimeoutError if it has not come within `timeout` seconds; the submission goes
        on."""
    def __await__(self) -> Generator[Any, None, Verdict]: ...
    def _needs_thread(self) -> bool: ...
    def _given_or_wakes(self, wakers: Any, number: int) -> bool: ...

@final
class Verdict:
    """What was done with a document, and what is near to it. Plain data: it can be pickled and compared."""

    @property
    def is_duplicate(self) -> bool:
        """Whether something near was stored before."""
    @property
    def is_new(self) -> bool:
        """Whether nothing near was stored before, but for an earlier one of the same key. The opposite of
        is_duplicate, except for a text that is too short, which is neither."""
    @property
    def change(self) -> _Change:
        """What was done: it was stored under a new key, in the place of one of the same key, or not."""
    @property
    def stored(self) -> bool: ...
    @property
    def too_short(self) -> bool:
        """Whether the text was too short to judge. It is stored, and near to nothing."""
    @property
    def nearest(self) -> Match | None: ...
    @property
    def matches(self) -> Matches: ...
    @property
    def replaced(self) -> Document | None:
        """The document of the same key that was there before."""
    @property
    def deleted(self) -> tuple[Document, ...]:
        """What it outranked, with `on_match="replace"`."""
    def __bool__(self) -> bool:
        """Raises TypeError: `if verdict` could mean both. Ask is_new or is_duplicate."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Matches:
    """The nearest matches, and how many there are."""

    @property
    def total(self) -> int:
        """The number of documents that match, listed or not."""
    @property
    def total_is_exact(self) -> bool:
        """Whether exactly `total` documents match. Otherwise at least that number match."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Match]: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Match: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[Match, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Match:
    """A stored document that is near."""

    @property
    def key(self) -> str: ...
    @property
    def distance(self) -> int:
        """The number of bits, 0 to 64, in which the fingerprints differ."""
    @property
    def similarity(self) -> float | None:
        """The estimated share of four-word sequences that both have, 0 to 1. None without sketches."""
    @property
    def document(self) -> Document: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Document:
    """A document, as it is stored. It cannot be changed; it can be pickled."""

    def __new__(
        cls,
        key: _Key,
        *,
        fingerprint: int | None = None,
        sketch: bytes | None = None,
        shingles: int = 0,
        seen: _Time | None = None,
        repeats: int = 0,
        rank: int | Sequence[int] = (),
        scope: str = "",
        payload: bytes = b"",
    ) -> Self: ...
    @property
    def key(self) -> str: ...
    @property
    def key_bytes(self) -> bytes: ...
    @property
    def fingerprint(self) -> int | None:
        """None: the text was too short to judge."""
    @property
    def sketch(self) -> bytes | None: ...
    @property
    def shingles(self) -> int:
        """The number of different sequences of four words, as the sketch counts them. 0 without a sketch."""
    @property
    def seen(self) -> int:
        """When it was seen, in Unix seconds."""
    @property
    def repeats(self) -> int:
        """How often it was seen again: 0 if it was seen once."""
    @property
    def rank(self) -> tuple[int, ...]: ...
    @property
    def scope(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Pair:
    """Two documents that are near."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def distance(self) -> int: ...
    @property
    def similarity(self) -> float | None:
        """The estimated share of four-word sequences that both have, 0 to 1. None if it was not looked at."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Cluster:
    """The keys of documents that are near each other, the survivor first."""

    @property
    def survivor(self) -> str: ...
    @property
    def duplicates(self) -> tuple[str, ...]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[str, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

class Overlap(NamedTuple):
    """How much of a text stood elsewhere. A share is by characters of the units (sentences or paragraphs) that are
    judged."""

    share: float
    """The share of the text that stood elsewhere, 0 to 1."""
    judged: int
    """The number of units that were judged. The others are too short, and count neither way."""
    too_short: int
    found: int
    """The number of units that stood elsewhere."""
    characters: int
    found_characters: int
    documents: tuple[OverlapDocument, ...]
    """The documents with the largest shares."""
    total_documents: int
    units: tuple[OverlapUnit, ...]
    """All units of the text, in order."""

class OverlapDocument(NamedTuple):
    """A document that has units of a text."""

    key: str
    units: int
    characters: int
    share: float
    """The share of the text that it has, 0 to 1."""
    first_units: int
    """The number of these units that no other document had before it."""
    seen: int
    """When the earliest of them was seen, in Unix seconds."""

class OverlapUnit(NamedTuple):
    """A sentence or a paragraph of a text. It is `text[start:end]`; of a page, of its visible text."""

    text: str
    start: int
    end: int
    too_short: bool
    first: FirstMatch | None
    """Where it was seen first. None: it stood nowhere else, or is too short."""

class FirstMatch(NamedTuple):
    """Where a unit of a text was seen first: of several at one time, the one that was written first."""

    key: str
    """That of the stored unit, such as `URL#12`."""
    document: str
    """That of its document, such as `URL`."""
    seen: int
    distance: int
    similarity: float | None

@final
class Fingerprinter:
    """Makes fingerprints. It is small, can be pickled, and needs no database."""

    def __new__(cls, scheme: str = "minwise-1", *, sketch_bytes: Literal[0, 16, 32] = 16) -> Self: ...
    @property
    def scheme(self) -> str: ...
    @property
    def sketch_bytes(self) -> int: ...
    def fingerprint(self, text: str) -> int | None:
        """The fingerprint of a text. None: it is too short to judge."""
    def fingerprint_html(self, html: str | bytes) -> int | None:
        """The fingerprint of the text of an HTML page. The encoding of bytes is looked for in them."""
    def fingerprint_many(self, texts: Iterable[str] | _Column) -> list[int | None]:
        """The fingerprints of many texts, on all cores. Other threads run meanwhile, and Ctrl-C stops it."""
    def document(
        self,
        key: _Key,
        text: str | None = None,
        *,
        html: str | bytes | None = None,
        features: _Features | None = None,
        seen: _Time | None = None,
        repeats: int = 0,
        rank: int | Sequence[int] = (),
        scope: str = "",
        payload: bytes = b"",
    ) -> Document:
        """The document of a key and a text, with fingerprint and sketch, for insert_many_if_new or for another
        process."""
    def text_of_html(self, html: str | bytes) -> str:
        """The text of a page from which its fingerprint is made."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def distance(a: int, b: int, /) -> int:
    """The number of bits in which two fingerprints differ."""

def duplicates(
    texts: Iterable[str] | _Column, *, max_distance: int = 10, min_similarity: float = 0.7
) -> list[int | None]:
    """For each text, the index of the one before it that it nearly repeats and that stays, or None if it stays itself.

    Each is compared with all, exactly. Of texts that are too short to judge, only equal ones are duplicates. It needs
    no database; for corpora that do not fit in memory use `dedup`, or a database.
    """

def dedup(
    inputs: _Paths,
    output: _Path,
    *,
    removed: _Path | None = None,
    annotate: bool = False,
    drop_unjudged: bool = False,
    database: _Path | None = None,
    again: bool = False,
    max_distance: int | None = None,
    min_similarity: float | None = None,
    survivor: Sequence[_Survivor] | None = None,
    connected: bool = False,
    scheme: str | None = None,
    sketch_bytes: Literal[0, 16, 32] | None = None,
    format: _Format = "auto",
    key_field: str | None = None,
    text_field: str | None = None,
    html_field: str | None = None,
    ignore_fields: str | Iterable[str] = (),
    glob: str | Iterable[str] = (),
    max_record_bytes: int | None = None,
    progress: Callable[[_Step, int, int], object] | None = None,
) -> DedupTotals:
    """Cleans a corpus, as `simdb dedup` does: copies the records of files and directories that are no near-duplicates
    of others, byte for byte. What the texts hold need not fit in memory.

    Inputs are JSON Lines, web archives (WARC), tab-separated or plain files, also packed with gzip or zstd. With
    several inputs and a directory as `output`, each file gets one of its name. `removed` is a file for a line of JSON
    for each removed record and its survivor, which `audit` reads. With `annotate`, each record of JSON Lines stays and
    gets fields: `dedup_group`, `dedup_size`, `dedup_survives`, `dedup_survivor`, `dedup_distance`, `dedup_similarity`.
    With `database`, what is near to one of its documents is removed too, and the rest is stored in it at the end; it
    is created if it does not exist. It must not be open elsewhere. `glob` says which files of directories are read.
    `progress` is called up to ten times a second with a step, what is done and what there is to do of it.

    The output has its name only when it is whole. A run that was stopped, by Ctrl-C or a kill, goes on with the same
    call. Raises ExistsError or InputError if the output is there already, or no input can be read. Parquet files need
    the program `simdb`.
    """

def audit(
    clean: _Paths,
    removed: _Path,
    *,
    inputs: _Paths | None = None,
    inputs_in: _Path | None = None,
    database: _Path | None = None,
    max_distance: int | None = None,
    min_similarity: float | None = None,
    survivor: Sequence[_Survivor] | None = None,
    scheme: str | None = None,
    sketch_bytes: Literal[0, 16, 32] | None = None,
    format: _Format = "auto",
    key_field: str | None = None,
    text_field: str | None = None,
    html_field: str | None = None,
    ignore_fields: str | Iterable[str] = (),
    glob: str | Iterable[str] = (),
    max_record_bytes: int | None = None,
    progress: Callable[[_Step, int, int], object] | None = None,
) -> AuditReport:
    """Proves that a corpus was cleaned as the list `removed` says, as `simdb audit` does: no two of its records are
    near, and each removed record is near to the survivor that it names.

    All pairs are found by the exact search, and each removed record and its survivor are compared anew. Without
    `inputs` only those that the list names are read; with all of them, no record can be lost. `inputs_in` is where
    relative paths of inputs begin. How near, how survivors are chosen and how files are read have to be as in the
    cleaning. Counter-examples are no error: `verdict` says "refuted". It takes as long as the cleaning.
    """

class DedupTotals(NamedTuple):
    """What came of a cleaning."""

    records: int
    kept: int
    removed: int
    """With `annotate`, the records that do not survive."""
    removed_as_equal: int
    """Those with the same fingerprint or text as their survivor."""
    removed_as_known: int
    """Those whose survivor is a document of the database."""
    too_short: int
    """They are removed only if their texts are the same."""
    rejected: int
    """They could not be judged, such as lines that are no JSON. They are kept, or dropped if that is asked for."""
    dropped_unjudged: int
    annotated: int
    failed_inputs: int
    """They could not be read to their ends. Nothing of them is in the output."""
    seconds: float
    rejections: tuple[str, ...]
    """What is wrong with the first ten rejected records that this call has met."""
    failures: tuple[str, ...]
    """What is wrong with the first ten inputs that this call could not read."""

class AuditReport(NamedTuple):
    """What an audit has found."""

    verdict: _Verdict
    """"open": there is no counter-example, but some survivors are documents of a database that was not given."""
    scheme: str
    sketch_bytes: int
    max_distance: int
    min_similarity: float | None
    kept: int
    kept_too_short: int
    kept_unjudged: int
    near_pairs: int
    """The pairs of kept records that are near."""
    near: tuple[KeptPair, ...]
    """The first ten of them."""
    removed: int
    unchecked: int
    """The removed records whose survivors could not be looked at."""
    greatest_distance: int
    """That of a removed record and its survivor."""
    least_similarity: float | None
    faults: int
    """The removed records of which something is not as the list says."""
    faulty: tuple[AuditFault, ...]
    """The first ten of each kind."""
    inputs: AuditInputs | None
    """What came of all records of the inputs, if these were given."""
    seconds: float

class ListedRecord(NamedTuple):
    """Where a record is, and what it is called. Without an input it is a document of a database."""

    input: str | None
    number: int | None
    """Its line, or its number in the input, from 1."""
    key: str | None

class KeptPair(NamedTuple):
    """Two kept records that are near."""

    a: ListedRecord
    b: ListedRecord
    distance: int
    similarity: float | None

class AuditFault(NamedTuple):
    """A removed record of which something is not as the list says."""

    kind: _Fault
    line: int
    """That of the list."""
    record: ListedRecord
    survivor: ListedRecord
    listed_distance: int
    listed_similarity: float | None
    distance: int | None
    """What was found. None: the two cannot be compared."""
    similarity: float | None

class AuditInputs(NamedTuple):
    """What came of all records of the inputs."""

    records: int
    unjudged: int
    lost: int
    """Those that are neither kept nor listed."""
    lost_records: tuple[ListedRecord, ...]
    foreign: int
    """The kept records that are in no input, or were removed."""
    foreign_records: tuple[ListedRecord, ...]

class Error(Exception):
    """What goes wrong in simdb. The message says what to do."""

class InputError(Error, ValueError):
    """What was given is out of bounds, or does not fit to the database.

    ``index`` is the place of the bad document or text among many, or None.
    """

    index: int | None
    def __init__(self, message: str, index: int | None = None) -> None: ...

class NotFoundError(Error, FileNotFoundError):
    """No database is at the path."""

class ExistsError(Error, FileExistsError):
    """Something is at the path already."""

class BusyError(Error):
    """Another process or handle has the file open, or snapshots are open.

    ``process`` is the number of the process that has it open, if the system tells.
    """

    process: int | None
    def __init__(self, message: str, process: int | None = None) -> None: ...

class ClosedError(Error, ValueError):
    """It was closed."""

class ForkedError(ClosedError):
    """It was opened by the process that this one was forked from. Open it here."""

class NotServedError(Error, ConnectionError):
    """Nobody serves the database, or whoever does does not answer.

    What was not answered may be stored or not. It can be submitted again.
    """

class ReadOnlyError(Error, PermissionError):
    """The database was opened to read only."""

class DamagedError(Error):
    """The file is damaged, of another release, or no database."""

class StorageError(Error, OSError):
    """The system refused: the disk is full or fails, a right is missing. What was answered is safe."""

class OutcomeUnknownError(StorageError):
    """A commit failed, and it is not known whether it is in the file.

    ``Database.reopen``, or a new opening, finds out.
    """
