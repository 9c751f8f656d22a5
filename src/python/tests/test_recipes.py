"""The recipes of the README: from other packages, and with those that hold data."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

import simdb
from conftest import text_of


def words_changed(text: str, every: int) -> str:
    """The text with some of its words changed."""
    return " ".join("changed" if place % every == every - 1 else word for place, word in enumerate(text.split()))


ORIGINALS = [text_of(number) for number in range(40)]
COPIES = [words_changed(text, 30) for text in ORIGINALS]


def test_from_simhash(tmp_path: Path) -> None:
    """PyPI simhash keeps an index in memory; simdb keeps a file, and tells the nearest."""
    simhash = pytest.importorskip("simhash")
    index = simhash.SimhashIndex(
        [(str(number), simhash.Simhash(text.split())) for number, text in enumerate(ORIGINALS)], k=8
    )
    found = [set(index.get_near_dups(simhash.Simhash(text.split()))) for text in COPIES]

    with simdb.open(tmp_path / "seen.simdb", max_distance=8) as db:
        list(db.insert_many_if_new((str(number), text) for number, text in enumerate(ORIGINALS)))
        near = [{match.key for match in db.query(text)} for text in COPIES]

    # What simhash finds here, simdb finds too.
    assert all(str(number) in keys for number, keys in enumerate(near))
    assert all(right <= keys for right, keys in zip(found, near, strict=True))


def test_from_datasketch(tmp_path: Path) -> None:
    """datasketch asks for a threshold and has tables of bands; simdb has the same similarity as a limit."""
    datasketch = pytest.importorskip("datasketch")

    def minhash(text: str) -> Any:
        made = datasketch.MinHash(num_perm=128)
        words = text.split()
        for place in range(len(words) - 3):
            made.update(" ".join(words[place : place + 4]).encode())
        return made

    lsh = datasketch.MinHashLSH(threshold=0.7, num_perm=128)
    for number, text in enumerate(ORIGINALS):
        lsh.insert(str(number), minhash(text))
    found = [set(lsh.query(minhash(text))) for text in COPIES]

    with simdb.open(tmp_path / "seen.simdb", min_similarity=0.7, max_distance=10) as db:
        list(db.insert_many_if_new((str(number), text) for number, text in enumerate(ORIGINALS)))
        near = [{match.key for match in db.query(text)} for text in COPIES]

    assert all(keys <= {str(number)} for number, keys in enumerate(near))
    assert sum(map(len, near)) >= 0.9 * sum(map(len, found))


def test_datasets_filter_in_batches(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    corpus = datasets.Dataset.from_dict({"id": [str(n) for n in range(80)], "text": ORIGINALS + COPIES})
    with simdb.open(tmp_path / "seen.simdb") as db:

        def is_new(batch: dict[str, list[str]]) -> list[bool]:
            verdicts = db.insert_many_if_new(batch["text"], keys=batch["id"])
            return [not verdict.is_duplicate for verdict in verdicts]

        clean = corpus.filter(is_new, batched=True, batch_size=16, load_from_cache_file=False, new_fingerprint="clean")
    assert clean["id"] == [str(number) for number in range(40)]


def test_datasets_fingerprints_in_many_processes(tmp_path: Path) -> None:
    """Fingerprints are made in all processes of `map`, and decided in one."""
    datasets = pytest.importorskip("datasets")
    corpus = datasets.Dataset.from_dict({"id": [str(n) for n in range(80)], "text": ORIGINALS + COPIES})
    fingerprinter = simdb.Fingerprinter()

    def judged(batch: dict[str, list[str]]) -> dict[str, list[bytes]]:
        documents = map(fingerprinter.document, batch["id"], batch["text"])
        return {"document": [pickle.dumps(document) for document in documents]}

    made = corpus.map(judged, batched=True, num_proc=2, load_from_cache_file=False, new_fingerprint="judged")
    with simdb.open(tmp_path / "seen.simdb") as db:
        verdicts = list(db.insert_many_if_new(pickle.loads(row["document"]) for row in made))
    assert [verdict.is_new for verdict in verdicts] == [True] * 40 + [False] * 40


def fingerprint_of(text: str) -> simdb.Document:
    return simdb.Fingerprinter().document(text[:20], text)


def test_a_pool_of_processes_makes_fingerprints(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool, simdb.open(tmp_path / "seen.simdb") as db:
        documents = pool.imap(fingerprint_of, ORIGINALS + ORIGINALS, chunksize=16)
        verdicts = list(db.insert_many_if_new(documents))
    assert len(verdicts) == 80 and sum(verdict.change == "inserted" for verdict in verdicts) == 40


def test_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [str(n) for n in range(80)], "text": ORIGINALS + COPIES})
    with simdb.open(tmp_path / "seen.simdb") as db:
        verdicts = db.insert_many_if_new(frame["text"], keys=frame["id"].tolist())
        clean = frame[[not verdict.is_duplicate for verdict in verdicts]]
    assert list(clean["id"]) == [str(number) for number in range(40)]
    assert frame[[of is None for of in simdb.duplicates(frame["text"])]].equals(clean)


def test_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": [str(n) for n in range(80)], "text": ORIGINALS + COPIES})
    with simdb.open(tmp_path / "seen.simdb") as db:
        verdicts = db.insert_many_if_new(frame["text"], keys=frame["id"])
        clean = frame.filter(polars.Series([not verdict.is_duplicate for verdict in verdicts]))
    assert clean["id"].to_list() == [str(number) for number in range(40)]
