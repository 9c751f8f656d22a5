"""Many documents at a time: iterables, columns of Arrow, buffers."""

from __future__ import annotations

import array
import gc
import math
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest

import simdb
from conftest import FOX, text_of

TEXTS = [text_of(number % 70) for number in range(100)]
KEYS = [f"key {number}" for number in range(100)]
NEW = [number < 70 for number in range(100)]


def new(verdicts: Iterator[simdb.Verdict]) -> list[bool]:
    return [verdict.is_new for verdict in verdicts]


@pytest.mark.parametrize("batch", [1, 7, 100, 10_000])
def test_pairs_are_decided_in_their_order_whatever_the_batch(db: simdb.Database, batch: int) -> None:
    assert new(db.insert_many_if_new(zip(KEYS, TEXTS, strict=True), batch=batch)) == NEW
    assert len(db) == 70


@pytest.mark.parametrize(
    "texts",
    [
        pyarrow.array(TEXTS),
        pyarrow.array(TEXTS, pyarrow.large_string()),
        pyarrow.array(TEXTS, pyarrow.string_view()),
        pyarrow.array(["before", *TEXTS, "after"])[1:-1],
        pyarrow.chunked_array([TEXTS[:1], TEXTS[1:50], [], TEXTS[50:]]),
        pyarrow.array(TEXTS).dictionary_encode(),
        polars.Series(TEXTS),
        polars.Series(TEXTS, dtype=polars.Categorical),
        pandas.Series(TEXTS, dtype="string[pyarrow]"),
        pandas.Series(TEXTS),
        TEXTS,
        tuple(TEXTS),
        numpy.array(TEXTS, dtype=object),
        numpy.array(TEXTS),
    ],
    ids=lambda it: type(it).__name__,
)
@pytest.mark.parametrize("batch", [13, 10_000])
def test_columns_of_texts(db: simdb.Database, texts: Any, batch: int) -> None:
    assert new(db.insert_many_if_new(texts, keys=KEYS, batch=batch)) == NEW


@pytest.mark.parametrize(
    "keys",
    [
        pyarrow.array(KEYS),
        pyarrow.array([key.encode() for key in KEYS]),
        pyarrow.array([key.encode() for key in KEYS], pyarrow.large_binary()),
        pyarrow.chunked_array([KEYS[:3], KEYS[3:]]),
        polars.Series(KEYS),
        [key.encode() for key in KEYS],
        dict.fromkeys(KEYS),
        dict.fromkeys(KEYS).keys(),
        deque(KEYS),
    ],
    ids=lambda it: type(it).__name__,
)
def test_columns_of_keys(db: simdb.Database, keys: Any) -> None:
    assert new(db.insert_many_if_new(pyarrow.array(TEXTS), keys=keys)) == NEW
    assert all(key in db for key in KEYS[:70])


class Labelled:
    """A series with labels, as one of pandas before 3: what is in brackets is a label, and no place."""

    def __init__(self, labelled: dict[int, str]) -> None:
        self._labelled = labelled

    def __len__(self) -> int:
        return len(self._labelled)

    def __iter__(self) -> Iterator[str]:
        return iter(self._labelled.values())

    def __getitem__(self, label: int) -> str:
        return self._labelled[label]


@pytest.mark.parametrize("batch", [13, 10_000])
@pytest.mark.parametrize("texts", [TEXTS, pyarrow.array(TEXTS)], ids=["list", "column"])
def test_each_document_has_the_key_of_its_place(db: simdb.Database, texts: Any, batch: int) -> None:
    """Once the texts of a frame that was sorted were stored under the keys of other rows, without an error."""
    keys: Any = Labelled({len(KEYS) - 1 - place: key for place, key in enumerate(KEYS)})
    list(db.insert_many_if_new(texts, keys=keys, on_match="link", batch=batch))
    assert [document.key for document in db.snapshot()] == KEYS
    fingerprinter = db.fingerprinter()
    for key, text in zip(KEYS, TEXTS):
        document = db.get(key)
        assert document is not None and document.fingerprint == fingerprinter.fingerprint(text)


def test_fewer_keys_than_their_length_says_are_an_error(db: simdb.Database) -> None:
    class Short(list[str]):
        def __len__(self) -> int:
            return 2

    for texts in (["x", "y"], pyarrow.array(["x", "y"])):
        with pytest.raises(simdb.InputError, match="keys: 1") as error:
            list(db.insert_many_if_new(texts, keys=Short(["a"])))
        assert error.value.index == 1 and len(db) == 0


SPREAD = (numpy.arange(50, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)).astype(numpy.uint64)


@pytest.mark.parametrize(
    "fingerprints",
    [
        SPREAD,
        numpy.repeat(SPREAD, 2)[::2],
        SPREAD[::-1][::-1],
        memoryview(SPREAD.data),
        pyarrow.array(SPREAD),
        polars.Series(SPREAD),
        [int(bits) for bits in SPREAD],
        list(SPREAD),
    ],
    ids=lambda it: type(it).__name__,
)
def test_columns_of_fingerprints(bits: simdb.Database, fingerprints: Any) -> None:
    keys = [str(number) for number in range(50)]
    assert all(new(bits.insert_many_if_new(fingerprints, keys=keys)))
    assert [document.fingerprint for document in bits.snapshot()] == [int(number) for number in SPREAD]
    assert [found.total for found in bits.snapshot().query_many(fingerprints)] == [1] * 50


@pytest.mark.parametrize(
    "wrong",
    [
        SPREAD.astype(numpy.int64),
        SPREAD.astype(">u8"),
        SPREAD.astype(numpy.uint32),
        SPREAD.astype(numpy.float64),
        SPREAD.reshape(5, 10),
        pyarrow.array([1.5]),
        pyarrow.array([[1], [2]]),
        # Once these were taken for texts, and ended in a panic.
        pyarrow.array([b"a", b"b"]),
        pyarrow.array([b"a", b"b"], pyarrow.large_binary()),
        pyarrow.array([b"a", b"b"], pyarrow.binary_view()),
        pyarrow.array([b"a", b"b"]).dictionary_encode(),
        "one text",
        b"bytes",
    ],
    ids=str,
)
def test_columns_of_other_kinds_are_refused(bits: simdb.Database, wrong: Any) -> None:
    with pytest.raises((TypeError, simdb.InputError)):
        list(bits.insert_many_if_new(wrong, keys=[str(number) for number in range(len(wrong))]))
    with pytest.raises((TypeError, simdb.InputError)):
        bits.snapshot().query_many(wrong)
    with pytest.raises((TypeError, simdb.InputError)):
        simdb.Fingerprinter().fingerprint_many(wrong)
    with pytest.raises((TypeError, simdb.InputError)):
        simdb.duplicates(wrong)
    assert len(bits) == 0


@pytest.mark.parametrize("texts", [pyarrow.array(["x", None]), ["x", None], polars.Series(["x", None])], ids=str)
def test_a_null_is_no_text_and_has_its_index(db: simdb.Database, texts: Any) -> None:
    with pytest.raises(simdb.InputError) as error:
        list(db.insert_many_if_new(texts, keys=["a", "b"]))
    assert error.value.index == 1 and len(db) == 0


def test_a_null_key_has_its_index(db: simdb.Database) -> None:
    with pytest.raises(simdb.InputError) as error:
        list(db.insert_many_if_new(pyarrow.array(["x", "y"]), keys=pyarrow.array(["a", None])))
    assert error.value.index == 1 and len(db) == 0


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "c"], pyarrow.array(["a"])], ids=str)
def test_there_are_as_many_keys_as_documents(db: simdb.Database, keys: Any) -> None:
    for texts in (pyarrow.array([FOX, FOX]), [FOX, FOX]):
        with pytest.raises(ValueError):
            list(db.insert_many_if_new(texts, keys=keys))


def test_a_column_needs_keys(db: simdb.Database) -> None:
    with pytest.raises(TypeError, match="keys"):
        db.insert_many_if_new(pyarrow.array(TEXTS))


def test_a_bad_document_ends_its_batch_and_not_those_before(db: simdb.Database) -> None:
    documents = [(key, text_of(number)) for number, key in enumerate(KEYS)]
    documents[57] = ("", "no key")
    verdicts = db.insert_many_if_new(documents, batch=10)
    seen = []
    with pytest.raises(simdb.InputError) as error:
        for verdict in verdicts:
            seen.append(verdict)
    assert error.value.index == 57 and len(seen) == 50 == len(db)
    assert list(verdicts) == []


@pytest.mark.parametrize(
    "bad", [("b", -1), ("b", 2**64), ("b", None), ("\ud800", 1), ("", 1), ("k" * 5_000, 1)], ids=range(6)
)
def test_each_bad_document_has_its_index(bits: simdb.Database, bad: tuple[str, Any]) -> None:
    with pytest.raises(simdb.InputError) as error:
        list(bits.insert_many_if_new([("a", 1), bad]))
    assert error.value.index == 1 and len(bits) == 0
    with pytest.raises(simdb.InputError) as error:
        list(bits.insert_many_if_new([1, bad[1]], keys=["a", bad[0]]))
    assert error.value.index == 1 and len(bits) == 0
    # Counted over all batches.
    with pytest.raises(simdb.InputError) as error:
        list(bits.insert_many_if_new([(str(number), number << 40) for number in range(7)] + [bad], batch=3))
    assert error.value.index == 7


def test_each_bad_question_has_its_index(bits: simdb.Database) -> None:
    questions: list[Any] = [-1, 2**64, None]
    for bad in questions:
        with pytest.raises(simdb.InputError) as error:
            bits.snapshot().query_many([1, 2, bad])
        assert error.value.index == 2
    with pytest.raises(simdb.InputError) as error:
        bits.delete_many(["a", "\ud800"])
    assert error.value.index == 1


class Unwilling:
    """A number that raises when somebody wants it."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __index__(self) -> int:
        raise self.error("mine")


@pytest.mark.parametrize("kind", [ZeroDivisionError, OverflowError, TypeError, ValueError])
def test_an_exception_of_a_number_comes_through(bits: simdb.Database, kind: type[Exception]) -> None:
    number: Any = Unwilling(kind)
    calls: list[Callable[[], Any]] = [
        lambda: list(bits.insert_many_if_new([("a", 1), ("b", number)])),
        lambda: bits.insert_if_new("a", fingerprint=number),
        lambda: bits.insert_if_new("a", fingerprint=1, repeats=number),
        lambda: bits.insert_if_new("a", fingerprint=1, rank=[number]),
        lambda: bits.insert_if_new("a", fingerprint=1, seen=number),
        lambda: simdb.Document("a", fingerprint=1, repeats=number),
        lambda: bits.query(fingerprint=1, max_distance=number),
    ]
    for call in calls:
        with pytest.raises(kind, match="^mine$") as error:
            call()
        assert error.type is kind


@pytest.mark.parametrize("rank", [numpy.int64(3), numpy.uint8(3), numpy.array([3]), [numpy.int32(3)], range(3, 4)])
def test_a_rank_is_any_whole_number(bits: simdb.Database, rank: Any) -> None:
    bits.insert_if_new("a", fingerprint=1, rank=rank)
    stored = bits.get("a")
    assert stored is not None and stored.rank == (3,)


@pytest.mark.parametrize("rank", ["3", b"3", 1.5, None.__class__])
def test_a_rank_of_another_type_is_refused(bits: simdb.Database, rank: Any) -> None:
    with pytest.raises(TypeError):
        bits.insert_if_new("a", fingerprint=1, rank=rank)
    assert len(bits) == 0


INTERRUPTED = """
import os, signal, sys, threading, time, simdb
numbers = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(20_000)]
texts = [" ".join(f"word{number * 7919 + place}" for place in range(100)) for number in range(4_000)] * 50
db = simdb.open(sys.argv[1], scheme="external", max_distance=3)
list(db.insert_many_if_new((str(number), bits) for number, bits in enumerate(numbers)))
snapshot = db.snapshot()
calls = {
    "query": lambda: snapshot.query_many(numbers * 20, max_distance=24, limit=1),
    "fingerprint": lambda: simdb.Fingerprinter().fingerprint_many(texts),
    "duplicates": lambda: simdb.duplicates(texts),
}
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    while True:
        calls[sys.argv[2]]()
except KeyboardInterrupt:
    assert time.monotonic() - begun < 20
    print("stopped")
"""


@pytest.mark.parametrize("call", ["query", "fingerprint", "duplicates"])
def test_ctrl_c_ends_long_work_of_many(path: Path, call: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(path), call]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert output.stdout == "stopped\n", output.stderr


def test_many_questions_are_answered_as_each_alone(bits: simdb.Database) -> None:
    """They are answered in parts, which grow."""
    list(bits.insert_many_if_new((str(number), number << 7) for number in range(500)))
    with bits.snapshot() as snapshot:
        questions = [number << 7 for number in range(700)]
        answers = snapshot.query_many(questions, max_distance=1, limit=3)
        alone = [snapshot.query(fingerprint=question, max_distance=1, limit=3) for question in questions]
        assert [list(answer) for answer in answers] == [list(answer) for answer in alone]


def test_items_of_another_kind_are_named(db: simdb.Database) -> None:
    assert new(db.insert_many_if_new([["a", FOX]])) == [True]  # type: ignore[list-item]
    for wrong in (["text"], [("a", "b", "c")], [("a", 1.5)], [7], [["a"]]):
        with pytest.raises(TypeError):
            list(db.insert_many_if_new(wrong))  # type: ignore[arg-type]
    with pytest.raises(simdb.InputError):
        list(db.insert_many_if_new([("a", FOX)], batch=0))
    # Once the message did not say which of many it was. NaN is what pandas has where there is no text.
    wrong_pairs: list[Any] = [("a", FOX), ("b", FOX), ("c", FOX), ("d", math.nan)]
    with pytest.raises(TypeError, match="item 3: a text .* not float"):
        list(db.insert_many_if_new(wrong_pairs, batch=2))
    wrong_keys: list[Any] = ["a", 7]
    with pytest.raises(TypeError, match="item 1: a key .* not int"):
        list(db.insert_many_if_new([FOX, FOX], keys=wrong_keys))
    with pytest.raises(TypeError, match="item 1: a key .* not int"):
        db.delete_many(wrong_keys)
    with pytest.raises(TypeError, match="item 1: a text .* not list"):
        simdb.Fingerprinter().fingerprint_many([FOX, []])  # type: ignore[list-item]


def test_an_exception_of_the_iterable_comes_through(db: simdb.Database) -> None:
    def documents() -> Iterator[tuple[str, str]]:
        yield "a", FOX
        raise LookupError("the source is gone")

    with pytest.raises(LookupError):
        list(db.insert_many_if_new(documents()))
    assert len(db) == 0


def test_the_iterable_may_use_the_database(db: simdb.Database) -> None:
    def documents() -> Iterator[tuple[str, str]]:
        for number in range(30):
            db.insert_if_new(f"other {number}", text_of(1_000 + number))
            yield str(number), text_of(number)

    assert all(new(db.insert_many_if_new(documents(), batch=7))) and len(db) == 60


def test_who_asks_for_a_verdict_while_another_does_is_told(db: simdb.Database) -> None:
    def documents() -> Iterator[tuple[str, str]]:
        yield "a", FOX
        with pytest.raises(RuntimeError, match="already"):
            next(verdicts)
        yield "b", text_of(1)

    verdicts = db.insert_many_if_new(documents())
    assert new(verdicts) == [True, True] and list(verdicts) == []


def test_documents_and_pairs_may_be_mixed(db: simdb.Database) -> None:
    fingerprinter = db.fingerprinter()
    mixed: list[Any] = []
    for number in range(20):
        if number % 3:
            mixed.append((str(number), text_of(number)))
        else:
            mixed.append(fingerprinter.document(str(number), text_of(number), scope="s", seen=number))
    assert all(new(db.insert_many_if_new(mixed)))
    assert [document.key for document in db.snapshot()] == [str(number) for number in range(20)]
    stored = db.get("3")
    assert stored == mixed[3] and stored is not None and stored.scope == "s"


def test_what_was_read_is_durable_and_a_loop_may_end_early(path: Path) -> None:
    db = simdb.open(path)
    verdicts = db.insert_many_if_new(((key, text_of(n)) for n, key in enumerate(KEYS)), batch=10)
    for _ in range(25):
        next(verdicts)
    assert len(db) == 30
    db.close()


def test_a_generator_that_has_its_verdicts_is_garbage_like_others(path: Path) -> None:
    def begin() -> weakref.ref[simdb.Database]:
        db = simdb.open(path)

        def documents() -> Iterator[tuple[str, str]]:
            for number in range(100):
                assert verdicts is not None
                yield str(number), text_of(number)

        verdicts = db.insert_many_if_new(documents(), batch=10)
        next(verdicts)
        return weakref.ref(db)

    db = begin()
    gc.collect()
    assert db() is None
    simdb.open(path).close()


def test_verdicts_that_nobody_asks_for_are_warned_of(db: simdb.Database) -> None:
    with pytest.warns(RuntimeWarning, match="nothing was stored"):
        verdicts = db.insert_many_if_new([("a", FOX)])
        del verdicts
    assert len(db) == 0


def test_fingerprints_of_many_are_those_of_each(db: simdb.Database) -> None:
    fingerprinter = simdb.Fingerprinter()
    each = [fingerprinter.fingerprint(text) for text in [*TEXTS, "short"]]
    assert each[-1] is None and each[0] is not None
    assert fingerprinter.fingerprint_many([*TEXTS, "short"]) == each
    assert fingerprinter.fingerprint_many(pyarrow.array([*TEXTS, "short"])) == each
    document = fingerprinter.document("a", TEXTS[0])
    assert document.fingerprint == each[0] and document.sketch is not None


def test_pairs_and_clusters(bits: simdb.Database) -> None:
    near = [(str(number), (number % 10) * 0x9E3779B97F4A7C15 % 2**64 ^ 1 << number % 3) for number in range(60)]
    list(bits.insert_many_if_new(near, on_match="link"))
    pairs = list(bits.pairs(3))
    brute = sum(
        simdb.distance(a, b) <= 3 for place, (_, a) in enumerate(near) for _, b in near[place + 1 :]
    )
    assert len(pairs) == brute and {pair.distance for pair in pairs} <= {0, 1, 2}
    clusters = list(bits.clusters(3, survivor=["earliest", "shortest_key"]))
    assert len(clusters) == 10 and sum(len(cluster) for cluster in clusters) == 60
    assert clusters[0].survivor == clusters[0][0] and clusters[0].duplicates == tuple(clusters[0])[1:]
    with bits.snapshot() as one, bits.snapshot() as other:
        assert len(list(one.pairs(0, other=other))) > 60
    search = bits.pairs(64)
    next(search)
    search.close()
    assert list(search) == []
    assert bits.delete_duplicates(3) == 50 and len(bits) == 10
    with pytest.raises(simdb.InputError):
        list(bits.pairs(65))
    with pytest.raises(simdb.InputError):
        bits.clusters(survivor=["best"])  # type: ignore[list-item]


def test_duplicates_among_texts() -> None:
    texts = [FOX, text_of(1), FOX + " again", "short", text_of(1), "short", "other"]
    assert simdb.duplicates(texts) == [None, None, 0, None, 1, 3, None]
    assert simdb.duplicates(pyarrow.array(texts)) == [None, None, 0, None, 1, 3, None]
    assert simdb.duplicates([]) == []
    with pytest.raises(simdb.InputError):
        simdb.duplicates(["a", None])  # type: ignore[list-item]
    with pytest.raises((TypeError, simdb.InputError)):
        simdb.duplicates([7])  # type: ignore[list-item]


def test_duplicates_of_real_pages_are_near_to_what_stays(pages: list[dict[str, Any]]) -> None:
    fingerprinter = simdb.Fingerprinter()
    texts = [fingerprinter.text_of_html(page["html"]) for page in pages]
    kept = simdb.duplicates(texts)
    duplicates = [(place, of) for place, of in enumerate(kept) if of is not None]
    assert 200 < len(duplicates) < 250
    for place, of in duplicates:
        assert kept[of] is None and of < place
        a, b = fingerprinter.fingerprint(texts[place]), fingerprinter.fingerprint(texts[of])
        assert a is not None and b is not None and simdb.distance(a, b) <= 10


def not_utf8(kind: str) -> Any:
    """A column as a reader of Parquet hands it over, which does not look whether texts are UTF-8."""
    texts = [b"one two three four five six seven", b"caf\xe9 one two three four five six"]
    if kind == "dictionary":
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, 0, 1]), not_utf8("string"), safe=False)
    wide, offset = (pyarrow.large_string(), pyarrow.int64()) if kind == "large" else (pyarrow.string(), pyarrow.int32())
    offsets = pyarrow.array([0, len(texts[0]), sum(map(len, texts))], offset)
    buffers = [None, offsets.buffers()[1], pyarrow.py_buffer(b"".join(texts))]
    return pyarrow.Array.from_buffers(wide, len(texts), buffers)


@pytest.mark.parametrize("kind", ["string", "large", "dictionary"])
def test_columns_that_are_not_utf8_are_refused(db: simdb.Database, kind: str) -> None:
    column = not_utf8(kind)
    keys = [str(number) for number in range(len(column))]
    calls: list[Callable[[], object]] = [
        lambda: simdb.Fingerprinter().fingerprint_many(column),
        lambda: list(db.insert_many_if_new(column, keys=keys)),
        lambda: db.snapshot().query_many(column),
        lambda: list(db.insert_many_if_new(pyarrow.array(keys), keys=column)),
        lambda: simdb.duplicates(column),
    ]
    for call in calls:
        with pytest.raises(simdb.InputError, match="UTF-8"):
            call()
    assert len(db) == 0


def test_dictionaries_without_values_are_columns_of_nulls() -> None:
    many = simdb.Fingerprinter().fingerprint_many
    nulls = pyarrow.array([None, None], pyarrow.string()).dictionary_encode()
    with pytest.raises(simdb.InputError, match="row 0 is null"):
        many(nulls)
    assert list(many(nulls[:0])) == []
    assert list(many(polars.Series([], dtype=polars.Categorical))) == []


@pytest.mark.parametrize("wrong", ["len(asked)", "asked[0]", "zip(asked, 5)", "enumerate(asked, 'a')"])
def test_an_exception_beside_verdicts_that_nobody_asked_for_is_not_lost(tmp_path: Path, wrong: str) -> None:
    """It was cleared by the warning that is given then, and the interpreter crashed."""
    program = f"""
import simdb, warnings
warnings.simplefilter("ignore")
with simdb.open({str(tmp_path / "d.simdb")!r}) as database:
    try:
        asked = None
        for turn in range(3):
            asked = database.insert_many_if_new([("a", "some text of words " * 5)])
            (lambda asked: {wrong})(database.insert_many_if_new([]))
    except TypeError as error:
        print("told", type(error).__name__)
    try:
        zip(database.insert_many_if_new([]), missing)
    except NameError as error:
        print("told", type(error).__name__)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["told", "TypeError", "told", "NameError"], ended.stderr


def test_columns_of_nothing_are_empty_and_masked_numbers_are_refused() -> None:
    fingerprinter = simdb.Fingerprinter()
    assert fingerprinter.fingerprint_many(numpy.array([])) == []
    assert fingerprinter.fingerprint_many(array.array("Q")) == []
    masked: Any = numpy.ma.masked_equal(numpy.array([1, 2, 3], dtype="u8"), 2)
    with pytest.raises((TypeError, simdb.InputError)):
        fingerprinter.fingerprint_many(masked)
