"""One document at a time: insertion, questions, deletion, expiry, closing."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import simdb
from conftest import FOX, Start, in_fork, text_of


def test_a_near_duplicate_is_told_and_not_stored(db: simdb.Database) -> None:
    first = db.insert_if_new("a", FOX)
    assert first.is_new and not first.is_duplicate and first.stored and first.change == "inserted"
    second = db.insert_if_new("b", FOX + " again")
    assert second.is_duplicate and not second.is_new and not second.stored and second.change == "skipped"
    assert second.nearest is not None and second.nearest.key == "a"
    assert 0 <= second.nearest.distance <= 8 and second.nearest.similarity is not None
    assert second.nearest.similarity > 0.8
    assert len(db) == 1 and "a" in db and "b" not in db


def test_a_document_is_never_near_to_its_own_key(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX)
    again = db.insert_if_new("a", FOX + " changed", seen=77)
    assert again.is_new and again.change == "replaced"
    assert again.replaced is not None and again.replaced.key == "a"
    stored = db.get("a")
    assert stored is not None and stored.seen == 77


def test_a_short_text_is_neither_new_nor_a_duplicate(db: simdb.Database) -> None:
    verdict = db.insert_if_new("a", "three short words")
    assert verdict.too_short and verdict.stored and not verdict.is_new and not verdict.is_duplicate
    assert db.query("three short words").total == 0
    document = db.get("a")
    assert document is not None and document.fingerprint is None and document.sketch is None


def test_a_verdict_is_no_truth_value(db: simdb.Database) -> None:
    with pytest.raises(TypeError, match="is_new"):
        bool(db.insert_if_new("a", FOX))


def test_link_stores_and_tells(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX)
    verdict = db.insert_if_new("b", FOX, on_match="link")
    assert verdict.is_duplicate and verdict.stored and len(db) == 2


def test_replace_lets_the_better_one_survive(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX, rank=1)
    db.insert_if_new("b", FOX, rank=(1, 5), on_match="link")
    worse = db.insert_if_new("c", FOX, rank=0, on_match="replace")
    assert not worse.stored and worse.deleted == ()
    better = db.insert_if_new("d", FOX, rank=[2], on_match="replace")
    assert better.stored and sorted(document.key for document in better.deleted) == ["a", "b"]
    assert len(db) == 1


def test_html_is_read_as_browsers_do(db: simdb.Database) -> None:
    page = f"<html><head><title>x</title><script>var a = 1</script></head><body><p>{FOX}</body>"
    assert db.insert_if_new("a", html=page).is_new
    assert db.insert_if_new("b", FOX).is_duplicate
    assert db.insert_if_new("c", html=page.encode()).is_duplicate


def test_the_encoding_of_a_page_is_looked_for_in_its_bytes(db: simdb.Database) -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю, сказал он ей однажды вечером у реки. " * 2
    page = f'<meta charset="windows-1251"><p>{text}'
    db.insert_if_new("a", text)
    verdict = db.insert_if_new("b", html=page.encode("windows-1251"))
    assert verdict.is_duplicate and verdict.nearest is not None and verdict.nearest.distance == 0


@pytest.mark.parametrize("body", [b"%PDF-1.7\n%\xe2\xe3", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"words\0\x01\x02\0\0words"])
def test_bytes_that_are_no_page_are_refused(db: simdb.Database, body: bytes) -> None:
    with pytest.raises(simdb.InputError, match="is no text"):
        db.insert_if_new("a", html=body)
    with pytest.raises(simdb.InputError, match="is no text"):
        db.fingerprinter().fingerprint_html(body)
    assert len(db) == 0


def test_features_of_the_caller(db: simdb.Database) -> None:
    features = [(f"feature {place}", 1.0 + place % 3) for place in range(30)]
    assert db.insert_if_new("a", features=features).is_new
    assert db.insert_if_new("b", features=[(word.encode(), weight) for word, weight in features]).is_duplicate
    with pytest.raises(simdb.InputError, match="weight"):
        db.insert_if_new("c", features=[("x", -1.0)] * 20)


def test_fingerprints_of_the_caller(bits: simdb.Database) -> None:
    assert bits.insert_if_new("a", fingerprint=0b1111).is_new
    assert bits.insert_if_new("b", fingerprint=0b1000).is_duplicate
    assert bits.insert_if_new("c", fingerprint=2**64 - 1).is_new
    document = bits.get("c")
    assert document is not None and document.fingerprint == 2**64 - 1
    assert bits.query(fingerprint=0b1110, max_distance=1)[0].key == "a"


@pytest.mark.parametrize("wrong", [-1, 2**64])
def test_a_fingerprint_has_64_bits(bits: simdb.Database, wrong: int) -> None:
    with pytest.raises(simdb.InputError, match="64 bits"):
        bits.insert_if_new("a", fingerprint=wrong)


def test_a_text_cannot_go_where_fingerprints_are_made_elsewhere(bits: simdb.Database) -> None:
    with pytest.raises(simdb.InputError):
        bits.insert_if_new("a", FOX)
    with pytest.raises(simdb.InputError):
        bits.fingerprinter()


def test_a_fingerprint_without_sketch_cannot_go_where_texts_are_compared(db: simdb.Database) -> None:
    with pytest.raises(simdb.InputError, match="sketch"):
        db.insert_if_new("a", fingerprint=7)


@pytest.mark.parametrize(
    "given", [{}, {"text": FOX, "html": FOX}, {"fingerprint": 1, "features": []}, {"text": None, "html": None}]
)
def test_exactly_one_content_is_wanted(db: simdb.Database, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="one of text, html, fingerprint and features"):
        db.insert_if_new("a", **given)


@pytest.mark.parametrize("call", ["insert_if_new", "submit"])
def test_an_unknown_argument_is_named(db: simdb.Database, call: str) -> None:
    with pytest.raises(TypeError, match=f"{call}.*'max_distanse'"):
        getattr(db, call)("a", FOX, max_distanse=3)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"text": 7}, TypeError),
        ({"text": b"bytes"}, TypeError),
        ({"html": 7}, TypeError),
        ({"text": FOX, "seen": "yesterday"}, TypeError),
        ({"text": FOX, "seen": datetime(2026, 1, 1)}, simdb.InputError),
        ({"text": FOX, "seen": float("nan")}, simdb.InputError),
        ({"text": FOX, "seen": 2**70}, simdb.InputError),
        ({"text": FOX, "seen": 1_700_000_000_000}, simdb.InputError),
        ({"text": FOX, "rank": "high"}, TypeError),
        ({"text": FOX, "rank": [1, 2, 3, 4, 5]}, simdb.InputError),
        ({"text": FOX, "scope": "s" * 300}, simdb.InputError),
        ({"text": FOX, "scopes": "en"}, TypeError),
        ({"text": FOX, "payload": b"p" * 70_000}, simdb.InputError),
        ({"text": FOX, "on_match": "drop"}, simdb.InputError),
        ({"text": FOX, "max_distance": 65}, simdb.InputError),
        ({"text": FOX, "max_distance": -1}, simdb.InputError),
        ({"text": FOX, "min_similarity": 1.5}, simdb.InputError),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_stored(
    db: simdb.Database, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        db.insert_if_new("a", **given)
    assert len(db) == 0
    assert db.insert_if_new("a", FOX).is_new


@pytest.mark.parametrize("key", ["", "k" * 5_000, b"", 7, None, ["a"]])
def test_a_bad_key_is_refused(db: simdb.Database, key: Any) -> None:
    with pytest.raises((simdb.InputError, TypeError)):
        db.insert_if_new(key, FOX)
    with pytest.raises((simdb.InputError, TypeError)):
        db.get(key)


@pytest.mark.parametrize("key", ["https://a.example/ü", "日本", b"\xff\xfe", "\udcff", "a\0b"])
def test_keys_of_any_bytes_come_back(db: simdb.Database, key: Any) -> None:
    db.insert_if_new(key, FOX)
    document = db.get(key)
    assert document is not None
    assert document.key_bytes == (key if isinstance(key, bytes) else os.fsencode(key))
    assert document.key == os.fsdecode(document.key_bytes)
    assert document.key in db and document.key_bytes in db


def test_a_half_character_in_a_key_or_a_scope_is_refused(db: simdb.Database) -> None:
    for call in (
        lambda: db.insert_if_new("\ud800", FOX),
        lambda: db.insert_if_new("a", FOX, scope="\ud800"),
        lambda: db.query(FOX, scopes=["\ud800"]),
        lambda: db.get("\ud800"),
        lambda: simdb.Document("a", scope="\ud800"),
        lambda: simdb.Document("a", repeats=-1),
        lambda: simdb.Document("\ud800"),
    ):
        with pytest.raises(simdb.InputError) as error:
            call()
        assert error.value.index is None
    assert len(db) == 0


def test_half_characters_in_a_text_are_no_error(db: simdb.Database) -> None:
    assert db.insert_if_new("a", FOX + " \ud800").stored


def test_times_are_seconds_or_aware_datetimes(db: simdb.Database) -> None:
    zone = timezone(timedelta(hours=2))
    times: list[tuple[Any, int]] = [
        (7, 7),
        (7.9, 7),
        (-0.5, -1),
        (datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600),
        (datetime(2026, 1, 1, 2, tzinfo=zone), 1_767_225_600),
    ]
    for number, (given, seconds) in enumerate(times):
        db.insert_if_new(str(number), text_of(number), seen=given)
        document = db.get(str(number))
        assert document is not None and document.seen == seconds
    # Once a number with a fraction became the greatest of 64 bits, and the message spoke of that.
    for far in (1e300, -1e300, 2.0**63, 10**30):
        with pytest.raises(simdb.InputError, match="a time of so many seconds cannot be"):
            db.insert_if_new("far", text_of(98), seen=far)
    before = time.time()
    db.insert_if_new("now", text_of(99))
    document = db.get("now")
    assert document is not None and before - 2 <= document.seen <= time.time() + 2


def test_a_document_keeps_all_its_parts(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX, seen=5, repeats=7, rank=(3, -4), scope="en", payload=b"\0bytes")
    document = db.get("a")
    assert document is not None
    assert (document.seen, document.rank, document.scope, document.payload) == (5, (3, -4), "en", b"\0bytes")
    assert document.repeats == 7
    assert document.sketch is not None and len(document.sketch) == 16 and document.shingles > 20


def test_questions_by_scope_and_time(db: simdb.Database) -> None:
    for number, scope in enumerate(["en", "de", ""]):
        db.insert_if_new(f"{number}", FOX, scope=scope, seen=number * 100, on_match="link")
    assert [found.key for found in db.query(FOX, scopes=["de"])] == ["1"]
    assert {found.key for found in db.query(FOX, since=100)} == {"1", "2"}
    assert db.query(FOX, limit=1).total == 3 and len(db.query(FOX, limit=1)) == 1
    assert db.insert_if_new("new", FOX, scopes=["fr"], scope="fr").is_new


def test_the_nearest_are_found_however_far_they_are(db: simdb.Database) -> None:
    for number, text in enumerate([FOX, FOX.upper(), FOX + " and so on", "entirely other words " * 9]):
        db.insert_if_new(f"{number}", text, scope="en" if number % 2 else "", on_match="link")
    assert db.query(FOX).total < 4
    found = db.query(FOX, nearest=4)
    distances = [match.distance for match in found]
    assert len(found) == found.total == 4 and found.total_is_exact
    assert distances == sorted(distances) and distances[-1] > 8
    assert db.query(FOX, nearest=2).total == 2 and db.query(FOX, nearest=0).total == 0
    assert [match.key for match in db.query(FOX, nearest=4, scopes=["en"])] == ["1", "3"]
    assert db.query(FOX, nearest=4, max_distance=distances[-1] - 1).total == 3
    asked = db.snapshot().query_many([FOX, "entirely other words " * 9], nearest=1)
    assert [answer[0].key for answer in asked] == ["1", "3"]
    with pytest.raises(simdb.InputError, match="limit"):
        db.query(FOX, nearest=3, limit=3)


def test_touch_keeps_what_comes_again(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX, seen=10)
    db.insert_if_new("b", FOX, seen=500, touch=True)
    assert db.expire(before=100) == 0
    document = db.get("a")
    assert document is not None and document.seen == 500


def test_what_is_not_stored_is_counted_in_the_nearest(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX)
    assert not db.insert_if_new("b", FOX).stored
    for verdict in db.insert_many_if_new([("c", FOX), ("d", FOX)], touch=True):
        assert not verdict.stored
    db.insert_if_new("e", FOX, repeats=4, touch=True)
    document = db.get("a")
    assert document is not None and document.repeats == 2 + 1 + 4
    better = db.insert_if_new("f", FOX, rank=1, on_match="replace", touch=True)
    assert [(old.key, old.repeats) for old in better.deleted] == [("a", 7)]
    document = db.get("f")
    assert document is not None and document.repeats == 8


def test_up_to_some_of_a_group_are_kept(db: simdb.Database) -> None:
    verdicts = [db.insert_if_new(f"{number}", FOX, rank=number, keep=3) for number in range(5)]
    assert [verdict.stored for verdict in verdicts] == [True, True, True, False, False]
    better = db.insert_if_new("9", FOX, rank=9, on_match="replace", keep=3)
    assert [old.key for old in better.deleted] == ["0"] and len(db) == 3
    with pytest.raises(simdb.InputError, match="keep at least 1"):
        db.insert_if_new("b", FOX, keep=0)
    with pytest.raises(simdb.InputError, match="keep"):
        db.insert_if_new("b", FOX, keep=-1)


def test_many_are_deleted_and_counted(bits: simdb.Database) -> None:
    for number in range(30):
        bits.insert_if_new(f"k{number}", fingerprint=number << 40, on_match="link")
    assert bits.delete_many([]) == 0
    assert bits.delete_many(f"k{number}" for number in range(20)) == 20
    assert bits.delete_many(["k19", b"k20", "k20", "k21"]) == 2
    assert len(bits) == 8 and "k22" in bits
    for keys in ["k25", b"k25", [25]]:
        with pytest.raises(TypeError):
            bits.delete_many(keys)  # type: ignore[arg-type]
    with pytest.raises(simdb.InputError):
        bits.delete_many(["k25", ""])


def test_delete_gives_what_was_there(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX)
    deleted = db.delete("a")
    assert deleted is not None and deleted.key == "a"
    assert db.delete("a") is None and len(db) == 0
    assert db.insert_if_new("b", FOX).is_new


def test_expire(db: simdb.Database) -> None:
    for number in range(20):
        db.insert_if_new(str(number), text_of(number), seen=number, scope=["even", "odd"][number % 2])
    assert db.expire(before=5) == 5
    assert db.expire(scopes=["odd"]) == 8
    assert db.expire(before=10, scopes=["even"]) == 2
    assert len(db) == 5
    with pytest.raises(TypeError, match="before, scopes or both"):
        db.expire()


def test_matches_are_a_sequence(bits: simdb.Database) -> None:
    for number in range(5):
        bits.insert_if_new(str(number), fingerprint=(1 << number) - 1, on_match="link")
    matches = bits.query(fingerprint=0, max_distance=64)
    assert len(matches) == 5 and [found.distance for found in matches] == [0, 1, 2, 3, 4]
    assert matches[-1].key == "4" and [found.key for found in matches[1:3]] == ["1", "2"]
    assert matches.total == 5 and matches.total_is_exact
    with pytest.raises(IndexError):
        matches[5]
    assert len(matches[::-1]) == 5 and matches[::-1][0].distance == 4


def test_plain_data_can_be_pickled_compared_and_copied(db: simdb.Database, bits: simdb.Database) -> None:
    db.insert_if_new("a", FOX, rank=1, payload=b"x", repeats=4)
    verdict = db.insert_if_new("b", FOX, rank=2, on_match="replace", touch=True)
    assert verdict.deleted
    for key, number in (("x", 7), ("y", 6)):
        bits.insert_if_new(key, fingerprint=number, on_match="link")
    pair, cluster = next(bits.pairs()), next(bits.clusters())
    for thing in (verdict, verdict.matches, verdict.nearest, db.get("b"), db.fingerprinter(), pair, cluster):
        assert pickle.loads(pickle.dumps(thing)) == thing
        assert copy.copy(thing) == thing and hash(copy.copy(thing)) == hash(thing)
        assert repr(thing)
    assert verdict != db.insert_if_new("c", FOX)
    assert db.get("b") != 7


def test_a_database_cannot_be_pickled_and_says_so(db: simdb.Database) -> None:
    with pytest.raises(TypeError, match="open it where it is used"):
        pickle.dumps(db)


def test_many_threads_may_close_it(path: Path) -> None:
    for _ in range(20):
        database = simdb.open(path)
        start = threading.Barrier(8)
        errors: list[Exception] = []

        def close(database: simdb.Database = database, start: threading.Barrier = start, errors: list[Exception] = errors) -> None:
            start.wait()
            try:
                database.close()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=close) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors and database.closed


def test_it_is_there_after_it_was_closed(path: Path) -> None:
    with simdb.open(path) as database:
        database.insert_if_new("a", FOX)
        ticket = database.submit("b", text_of(1))
    assert database.closed and ticket.result().is_new
    database.close()
    with simdb.open(path) as database:
        assert len(database) == 2 and not database.closed


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.insert_if_new("a", FOX),
        lambda db: db.submit("a", FOX),
        lambda db: list(db.insert_many_if_new([("a", FOX)])),
        lambda db: db.query(FOX),
        lambda db: db.get("a"),
        lambda db: len(db),
        lambda db: db.delete("a"),
        lambda db: db.expire(before=1),
        lambda db: db.flush(),
        lambda db: db.snapshot(),
        lambda db: list(db.pairs()),
        lambda db: list(db.clusters()),
        lambda db: db.delete_duplicates(),
        lambda db: db.compact(),
        lambda db: db.warm(),
        lambda db: db.check(),
        lambda db: db.reopen(),
    ],
)
def test_what_is_closed_says_so_and_a_fork_says_so(path: Path, call: Any) -> None:
    db = simdb.open(path)
    db.insert_if_new("z", text_of(3))

    def child() -> None:
        with pytest.raises(simdb.ForkedError):
            call(db)

    in_fork(child)
    db.close()
    with pytest.raises(simdb.ClosedError):
        call(db)


def test_a_snapshot_does_not_change(db: simdb.Database) -> None:
    db.insert_if_new("a", FOX)
    with db.snapshot() as snapshot:
        db.insert_if_new("b", text_of(1))
        db.delete("a")
        assert [document.key for document in snapshot] == ["a"] and len(snapshot) == 1
        assert "a" in snapshot and "b" not in snapshot and snapshot.get("b") is None
        assert snapshot.query(FOX).total == 1 and snapshot.query(text_of(1)).total == 0
        assert snapshot.stats()["documents"] == 1
        documents = iter(snapshot)
    assert [document.key for document in documents] == ["a"]
    with pytest.raises(simdb.ClosedError):
        snapshot.get("a")


def test_options_are_those_of_creation(path: Path) -> None:
    with simdb.open(path, scheme="simhash-2", max_distance=3, sketch_bytes=32, min_similarity=0.5, cache=1 << 20) as db:
        assert (db.scheme, db.max_distance, db.sketch_bytes, db.min_similarity) == ("simhash-2", 3, 32, 0.5)
        assert db.path == path
    with simdb.open(path, cache=0.1) as db:
        assert (db.scheme, db.max_distance) == ("simhash-2", 3)
    others: list[dict[str, Any]] = [{"scheme": "minwise-1"}, {"max_distance": 4}, {"sketch_bytes": 16}]
    for wrong in others:
        with pytest.raises(simdb.InputError):
            simdb.open(path, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scheme": "md5"},
        {"sketch_bytes": 7},
        {"plan": "99x99"},
        {"cache": 1.5},
        {"max_distance": -1},
        {"max_distance": 65},
        {"expected_documents": -1},
        {"min_similarity": 2.0},
    ],
)
def test_bad_options_make_no_file(path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(simdb.InputError):
        simdb.open(path, **wrong)
    assert not path.exists()


def test_what_cannot_be_opened_says_why(path: Path) -> None:
    with pytest.raises(simdb.NotFoundError) as missing:
        simdb.open(path, create=False)
    assert isinstance(missing.value, FileNotFoundError) and missing.value.errno == 2
    with pytest.raises(simdb.NotFoundError):
        simdb.open(path, read_only=True)
    path.write_bytes(b"no database" * 1_000)
    with pytest.raises(simdb.DamagedError):
        simdb.open(path)
    with pytest.raises(simdb.StorageError):
        simdb.open(path.parent / "none" / "a.simdb")


def test_a_file_that_is_open_is_busy(path: Path, start: Start) -> None:
    with simdb.open(path), pytest.raises(simdb.BusyError):
        simdb.open(path)
    program = f"import simdb, sys; db = simdb.open({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    other = start("-c", program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    with pytest.raises(simdb.BusyError) as busy:
        simdb.open(path)
    assert busy.value.process == other.pid


def test_read_only(path: Path) -> None:
    with simdb.open(path) as db:
        db.insert_if_new("a", FOX)
    with simdb.open(path, read_only=True) as db:
        assert db.query(FOX).total == 1
        for call in (
            lambda: db.insert_if_new("b", FOX),
            lambda: db.delete("a"),
            lambda: db.insert_many_if_new([]),
            lambda: db.flush(),
        ):
            with pytest.raises(simdb.ReadOnlyError):
                call()


def test_compact_check_and_backup(db: simdb.Database, tmp_path: Path) -> None:
    list(db.insert_many_if_new((str(number), text_of(number)) for number in range(300)))
    for number in range(200):
        db.delete(str(number))
    db.compact()
    db.warm()
    assert db.check() == []
    db.backup(tmp_path / "copy.simdb")
    with pytest.raises(simdb.ExistsError):
        db.backup(tmp_path / "copy.simdb")
    with simdb.open(tmp_path / "copy.simdb") as copied:
        assert len(copied) == 100 and copied.check() == []
    with db.snapshot(), pytest.raises(simdb.BusyError):
        db.check()


def test_errors_are_a_tree_and_can_be_pickled(tmp_path: Path) -> None:
    for error in (simdb.InputError, simdb.BusyError, simdb.ClosedError, simdb.DamagedError, simdb.StorageError):
        assert issubclass(error, simdb.Error)
    assert issubclass(simdb.InputError, ValueError) and issubclass(simdb.StorageError, OSError)
    assert issubclass(simdb.ForkedError, simdb.ClosedError) and issubclass(simdb.ReadOnlyError, PermissionError)
    error = pickle.loads(pickle.dumps(simdb.InputError("bad", 7)))
    assert (str(error), error.index) == ("bad", 7)
    busy = pickle.loads(pickle.dumps(simdb.BusyError("busy", 42)))
    assert (str(busy), busy.process) == ("busy", 42)
    # Once the number of the system's error was lost on the way from a worker.
    with pytest.raises(simdb.NotFoundError) as missing:
        simdb.open(tmp_path / "missing", create=False)
    for copied in (pickle.loads(pickle.dumps(missing.value)), copy.copy(missing.value)):
        assert (type(copied), str(copied)) == (simdb.NotFoundError, str(missing.value))
        assert copied.errno == missing.value.errno == errno.ENOENT


def test_many_threads_share_one_database(db: simdb.Database) -> None:
    verdicts: list[simdb.Verdict] = []

    def work(thread: int) -> None:
        for number in range(50):
            # Each text comes from two threads.
            verdicts.append(db.insert_if_new(f"{thread}-{number}", text_of(number + thread // 2 * 1_000)))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(verdict.is_new for verdict in verdicts) == 200 == len(db)


def test_other_threads_run_while_one_waits(db: simdb.Database) -> None:
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    list(db.insert_many_if_new((str(number), text_of(number) * 5) for number in range(3_000)))
    stop.set()
    thread.join()
    assert ticks > 20


def test_ctrl_c_ends_a_wait_and_not_the_insertion(path: Path) -> None:
    """The main thread waits for a long search, gets the signal, and the database goes on."""
    program = f"""
import os, signal, threading, time, simdb
db = simdb.open({str(path)!r}, scheme="external", max_distance=3)
list(db.insert_many_if_new((str(i), (i * 0x9E3779B97F4A7C15) % 2**64) for i in range(120_000)))
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    while True:
        db.check()
        db.delete_duplicates(20)
except KeyboardInterrupt:
    assert time.monotonic() - begun < 20
    assert db.insert_if_new("new", fingerprint=77).stored
    db.close()
    print("stopped")
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert output.stdout == "stopped\n", output.stderr


def test_what_was_submitted_is_stored_when_the_program_ends(path: Path) -> None:
    program = f"""
import simdb
db = simdb.open({str(path)!r})
for number in range(500):
    db.submit(str(number), " ".join(f"word{{number * 7919 + place}}" for place in range(40)))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with simdb.open(path) as db:
        assert len(db) == 500


def test_what_was_answered_survives_a_kill(path: Path, start: Start) -> None:
    program = f"""
import simdb
db = simdb.open({str(path)!r})
for number in range(10_000):
    db.insert_if_new(str(number), " ".join(f"word{{number * 7919 + place}}" for place in range(40)))
    print(number, flush=True)
"""
    for _ in range(3):
        child = start("-c", program, stdout=subprocess.PIPE)
        assert child.stdout is not None
        last = ""
        for _ in range(60):
            last = child.stdout.readline()
        child.kill()
        child.wait(30)
        with simdb.open(path) as db:
            assert all(str(number) in db for number in range(int(last) + 1))
            assert db.check() == []
