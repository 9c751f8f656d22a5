"""Cleaning files of records, and proving that they are clean."""

from __future__ import annotations

import errno
import gzip
import json
import os
import pickle
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import simdb
from conftest import DATA, FOX, Start, text_of


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(lines)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Twelve records, of which three are near to others."""
    records = [{"id": str(number), "text": text_of(number)} for number in range(8)]
    records.insert(3, {"id": "near", "text": text_of(1).replace("word", "Word", 1)})
    records += [{"id": "fox", "text": FOX}, {"id": "fox again", "text": FOX}, {"id": "and again", "text": FOX + "!"}]
    return write(tmp_path / "corpus.jsonl", records)


def test_a_cleaning_copies_what_survives_byte_for_byte(corpus: Path, tmp_path: Path) -> None:
    output, removed = tmp_path / "clean.jsonl", tmp_path / "removed.jsonl"
    totals = simdb.dedup(corpus, output, removed=removed)
    assert (totals.records, totals.kept, totals.removed, totals.removed_as_equal) == (12, 9, 3, 3)
    assert (totals.rejected, totals.failed_inputs, totals.rejections, totals.failures) == (0, 0, (), ())
    lines = corpus.read_text().splitlines(keepends=True)
    assert output.read_text() == "".join(lines[:3] + lines[4:10])
    listed = read(removed)
    assert [(record["key"], record["survivor"]["key"]) for record in listed] == [
        ("near", "1"),
        ("fox again", "fox"),
        ("and again", "fox"),
    ]
    assert pickle.loads(pickle.dumps(totals)) == totals
    assert totals.seconds > 0


def test_each_record_stays_and_is_told_its_group(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "told.jsonl"
    totals = simdb.dedup(corpus, output, annotate=True)
    assert (totals.annotated, totals.removed, totals.kept) == (12, 3, 9)
    told = {record["id"]: record for record in read(output)}
    assert [record["text"] for record in told.values()] == [record["text"] for record in read(corpus)]
    assert [name for name, record in told.items() if not record["dedup_survives"]] == ["near", "fox again", "and again"]
    assert told["and again"]["dedup_survivor"] == "fox"
    assert (told["fox"]["dedup_size"], told["0"]["dedup_size"]) == (3, 1)
    assert told["near"]["dedup_group"] == told["1"]["dedup_group"] != told["2"]["dedup_group"]


def test_all_settings_reach_the_cleaning_and_the_audit(tmp_path: Path, pages: list[dict[str, Any]]) -> None:
    """In files of several kinds."""
    folder = tmp_path / "in"
    folder.mkdir()
    middle = len(pages) // 2
    write(folder / "a.jsonl", pages[:middle])
    with gzip.open(folder / "b.jsonl.gz", "wt") as packed:
        packed.writelines(json.dumps(page) + "\n" for page in pages[middle:])
    (folder / "c.ignored").write_text("no record of the corpus")
    output, removed = tmp_path / "out", tmp_path / "removed.jsonl"
    steps: list[str] = []
    totals = simdb.dedup(
        folder,
        output,
        removed=removed,
        max_distance=6,
        min_similarity=0.8,
        survivor=["longest"],
        sketch_bytes=32,
        html_field="html",
        key_field="id",
        glob=["*.jsonl", "*.gz"],
        progress=lambda step, done, total: steps.append(step),
    )
    assert totals.records == len(pages)
    assert sorted(path.name for path in output.iterdir()) == ["a.jsonl", "b.jsonl.gz"]
    assert list(dict.fromkeys(steps)) == ["reading", "comparing", "writing"]
    report = simdb.audit(
        output,
        removed,
        inputs=folder,
        max_distance=6,
        min_similarity=0.8,
        survivor=["longest"],
        sketch_bytes=32,
        html_field="html",
        key_field="id",
        glob=["*.jsonl", "*.gz"],
    )
    assert (report.verdict, report.near_pairs, report.faults) == ("proven", 0, 0)
    assert (report.kept, report.removed) == (totals.kept, totals.removed)
    assert (report.max_distance, report.min_similarity, report.sketch_bytes) == (6, 0.8, 32)
    assert report.inputs is not None
    assert (report.inputs.records, report.inputs.lost, report.inputs.foreign) == (len(pages), 0, 0)


def test_an_audit_agrees_with_a_comparison_of_all(tmp_path: Path) -> None:
    """Some records are put back, some survivors are exchanged: each of that is found, and nothing else."""
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    choose = random.Random(seed)
    records = []
    for number in range(60):
        text = text_of(number)
        for copy in range(choose.choice([1, 1, 2, 3])):
            records.append({"id": f"{number}.{copy}", "text": text + " again" * copy})
    choose.shuffle(records)
    corpus = write(tmp_path / "corpus.jsonl", records)
    clean, removed = tmp_path / "clean.jsonl", tmp_path / "removed.jsonl"
    simdb.dedup(corpus, clean, removed=removed)
    assert simdb.audit(clean, removed, inputs=[corpus]).verdict == "proven"

    fingerprinter = simdb.Fingerprinter()
    texts = {record["id"]: record["text"] for record in records}
    kept, listed = read(clean), read(removed)
    back = choose.sample(listed, 3)
    kept += [{"id": record["key"], "text": texts[record["key"]]} for record in back]
    write(clean, kept)
    wrong = choose.sample([place for place, record in enumerate(listed) if record not in back], 2)
    for place in wrong:
        others = [record for record in listed if record["survivor"] != listed[place]["survivor"]]
        listed[place]["survivor"] = choose.choice(others)["survivor"]
    write(removed, listed)

    near = set()
    for a, first in enumerate(kept):
        for second in kept[a + 1 :]:
            bits = [fingerprinter.fingerprint(record["text"]) for record in (first, second)]
            if bits[0] is not None and bits[1] is not None and simdb.distance(bits[0], bits[1]) <= 10:
                near.add(frozenset({first["id"], second["id"]}))
    report = simdb.audit(clean, removed, inputs=corpus)
    assert report.verdict == "refuted"
    assert report.near_pairs == len(near) >= 3
    assert {frozenset({pair.a.key, pair.b.key}) for pair in report.near} == near
    assert sorted(fault.line for fault in report.faulty if fault.kind == "not_near") == sorted(
        place + 1 for place in wrong
    )
    assert report.inputs is not None
    places = [(record.input, record.number) for record in report.inputs.foreign_records]
    assert places == [(str(clean), number) for number in range(len(kept) - 2, len(kept) + 1)]
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_lost_record_is_found(corpus: Path, tmp_path: Path) -> None:
    clean, removed = tmp_path / "clean.jsonl", tmp_path / "removed.jsonl"
    simdb.dedup([corpus], clean, removed=removed)
    lines = clean.read_text().splitlines(keepends=True)
    clean.write_text("".join(lines[:4] + lines[5:]))
    assert simdb.audit(clean, removed).inputs is None
    report = simdb.audit(clean, removed, inputs=corpus)
    assert report.verdict == "refuted"
    assert report.inputs is not None
    assert report.inputs.lost == 1
    assert report.inputs.lost_records == (simdb.ListedRecord(str(corpus), 6, None),)


def test_what_is_known_is_removed_and_the_rest_is_stored(corpus: Path, tmp_path: Path) -> None:
    database, removed = tmp_path / "kept.simdb", tmp_path / "removed.jsonl"
    with simdb.open(database) as db:
        db.insert_if_new("old fox", FOX)
    totals = simdb.dedup(corpus, tmp_path / "clean.jsonl", removed=removed, database=database)
    assert (totals.removed, totals.removed_as_known) == (4, 3)
    with simdb.open(database) as db:
        assert len(db) == 9
        with pytest.raises(simdb.BusyError):
            simdb.dedup(corpus, tmp_path / "more.jsonl", database=database)
    assert simdb.audit(tmp_path / "clean.jsonl", removed).verdict == "open"
    assert simdb.audit(tmp_path / "clean.jsonl", removed, database=database).verdict == "proven"
    with pytest.raises(simdb.InputError):
        simdb.dedup(corpus, tmp_path / "more.jsonl", database=database)
    again = simdb.dedup(corpus, tmp_path / "more.jsonl", database=database, again=True)
    assert again.kept == 0


def test_what_cannot_be_judged_is_told(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", [{"id": "1", "text": FOX}, {"id": "2"}])
    with corpus.open("a") as more:
        more.write("{no json\n" * 20)
    (tmp_path / "bad.jsonl.gz").write_bytes(b"\x1f\x8b no more")
    output = tmp_path / "out"
    output.mkdir()
    totals = simdb.dedup([corpus, tmp_path / "bad.jsonl.gz"], output, drop_unjudged=True)
    assert (totals.records, totals.rejected, totals.dropped_unjudged, totals.failed_inputs) == (22, 21, 21, 1)
    assert len(totals.rejections) == 10
    assert "corpus.jsonl, line 2" in totals.rejections[0]
    assert len(totals.failures) == 1
    assert "bad.jsonl.gz" in totals.failures[0]
    assert (output / "corpus.jsonl").read_text() == corpus.read_text().splitlines(keepends=True)[0]


@pytest.mark.parametrize("unpacked", [True, False])
def test_inputs_are_one_or_several(corpus: Path, tmp_path: Path, unpacked: bool) -> None:
    inputs = str(corpus) if unpacked else iter([corpus])
    assert simdb.dedup(inputs, tmp_path / "clean.jsonl").kept == 9


def test_what_is_wrong_is_refused_before_anything_is_done(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "clean.jsonl"
    out_of_bounds: list[dict[str, Any]] = [
        {"format": "parquet"},
        {"survivor": ["newest"]},
        {"scheme": "none-such"},
        {"sketch_bytes": 5},
        {"max_distance": 65},
        {"min_similarity": 1.5},
    ]
    for named in out_of_bounds:
        with pytest.raises(simdb.InputError):
            simdb.dedup(corpus, output, **named)
    strange: list[dict[str, Any]] = [
        {"unit": "sentence"},
        {"since": 0},
        {"scopes": ["en"]},
        {"progress": 1},
        {"glob": 3},
    ]
    for named in strange:
        with pytest.raises(TypeError):
            simdb.dedup(corpus, output, **named)
    with pytest.raises(simdb.Error):
        simdb.dedup(tmp_path / "nothing.jsonl", output)
    with pytest.raises(simdb.Error):
        simdb.audit(corpus, tmp_path / "nothing.jsonl")
    # Once it was a StorageError, which says that the system has refused something.
    output.write_text("something of value")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "thing").touch()
    for there in (output, folder):
        with pytest.raises(simdb.ExistsError) as error:
            simdb.dedup(corpus, there)
        assert error.value.errno == errno.EEXIST
    with pytest.raises(simdb.ExistsError):
        simdb.dedup(corpus, tmp_path / "new.jsonl", removed=output)
    assert output.read_text() == "something of value"


def test_what_progress_raises_ends_the_work_which_goes_on(corpus: Path, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def progress(step: str, done: int, total: int) -> None:
        if step == "comparing":
            raise Enough

    output = tmp_path / "clean.jsonl"
    with pytest.raises(Enough):
        simdb.dedup(corpus, output, progress=progress)
    assert not output.exists()
    assert simdb.dedup(corpus, output).kept == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.jsonl", "corpus.jsonl"]
    removed = tmp_path / "removed.jsonl"
    removed.write_text("")
    with pytest.raises(Enough):
        simdb.audit(output, removed, progress=progress)


CLEANS = """
import sys, simdb
seen = set()
def progress(step, done, total):
    if step not in seen:
        seen.add(step)
        print(step, flush=True)
try:
    simdb.dedup(sys.argv[1], sys.argv[2], removed=sys.argv[3], progress=progress)
except KeyboardInterrupt:
    sys.exit(3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_cleaning_that_was_ended_goes_on(tmp_path: Path, start: Start, number: signal.Signals) -> None:
    """It is ended in one step after the other, and the result is that of a cleaning that was never ended."""
    texts = [text_of(place // 2) for place in range(10_000)]
    corpus = write(tmp_path / "corpus.jsonl", [{"id": str(place), "text": text} for place, text in enumerate(texts)])
    output, removed = tmp_path / "clean.jsonl", tmp_path / "removed.jsonl"
    ends = []
    for step in ("reading", "comparing", "writing"):
        process = start("-c", CLEANS, str(corpus), str(output), str(removed), stdout=subprocess.PIPE)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == step:
                process.send_signal(number)
                break
        ends.append(process.wait(60))
    assert ends[0] == (3 if number == signal.SIGINT else -signal.SIGKILL)
    if not output.exists():
        assert simdb.dedup(corpus, output, removed=removed).records == len(texts)
    lines = corpus.read_text().splitlines(keepends=True)
    assert output.read_text() == "".join(lines[::2])
    assert len(read(removed)) == len(texts) // 2
    assert simdb.audit(output, removed, inputs=corpus).verdict == "proven"


def test_others_run_meanwhile(tmp_path: Path) -> None:
    """The interpreter is free while files are read, so a thread counts."""
    script = f"""
import threading, time, simdb
count, done = 0, False
def counts():
    global count
    while not done:
        count += 1
        time.sleep(0.001)
thread = threading.Thread(target=counts)
thread.start()
simdb.dedup({str(DATA / "pg-docs-html" / "docs.jsonl.gz")!r}, {str(tmp_path / "out.jsonl")!r})
done = True
thread.join()
print(count)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 5


def test_no_files_are_neither_cleaned_nor_clean(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(simdb.InputError):
        simdb.dedup([], out)
    assert not out.exists()
    with pytest.raises(simdb.InputError):
        simdb.audit([], corpus)


def test_a_database_is_no_result(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(simdb.Error, match="same name"):
        simdb.dedup(corpus, out, database=out)
    with pytest.raises(simdb.Error, match="same name"):
        simdb.dedup(corpus, tmp_path / "other", removed=out, database=out)
    assert not out.exists()


def test_no_inputs_are_not_all_inputs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="names none"):
        simdb.audit(tmp_path / "clean.jsonl", tmp_path / "removed.jsonl", inputs=[])


def test_duplicates_takes_what_it_says() -> None:
    for name in ("since", "scopes"):
        with pytest.raises(TypeError, match=name):
            simdb.duplicates(["a"], **{name: ["en"]})  # type: ignore[arg-type]
