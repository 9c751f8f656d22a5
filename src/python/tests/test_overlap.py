"""How much of a text stood elsewhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import simdb
from conftest import text_of

RIVER = "The river rose above its banks at night."
SCHOOL = "Schools stay closed until Friday."
HELPERS = "The helpers of the town have worked until seven."
BRIDGE = "The old bridge was washed away here."


@pytest.fixture
def news(tmp_path: Path) -> simdb.Database:
    database = simdb.open(tmp_path / "news.simdb", scheme="minwise-short-1", max_distance=5)
    for key, seen, sentences in [
        ("a", 300, [RIVER, SCHOOL]),
        ("b", 200, [SCHOOL, HELPERS, SCHOOL]),
        ("me", 100, [RIVER, BRIDGE]),
    ]:
        for number, sentence in enumerate(sentences, 1):
            database.insert_if_new(f"{key}#{number}", sentence, seen=seen, scope=key, on_match="link")
    return database


def test_units_are_where_they_stand_behind_halves_of_characters(news: simdb.Database) -> None:
    """Once each half counted three times, so all that was behind it was said to be elsewhere."""
    text = f"N\ud83d \udf89! {RIVER} {SCHOOL}\n\n{BRIDGE}\ud83d"
    with news:
        overlap = news.overlap(text)
        assert (overlap.judged, overlap.found) == (3, 3)
        whole = text.replace("\ud83d", "\ufffd").replace("\udf89", "\ufffd")
        for unit in overlap.units:
            assert whole[unit.start : unit.end] == unit.text


def test_totals_are_those_of_a_count_by_hand(news: simdb.Database) -> None:
    # 40 and 33 characters stood elsewhere, 36 stood nowhere, and "Nö 🎉!" is too short.
    text = f"Nö 🎉! {RIVER} {SCHOOL}\n\n{BRIDGE}"
    with news, news.snapshot() as snapshot:
        overlap = news.overlap(text, without="me")
        assert snapshot.overlap(text, without="me") == overlap
        assert (overlap.judged, overlap.too_short, overlap.found) == (3, 1, 2)
        assert (overlap.characters, overlap.found_characters, overlap.share) == (109, 73, 73 / 109)
        assert overlap.total_documents == 2
        assert overlap.documents == (
            simdb.OverlapDocument(key="a", units=2, characters=73, share=73 / 109, first_units=1, seen=300),
            simdb.OverlapDocument(key="b", units=1, characters=33, share=33 / 109, first_units=1, seen=200),
        )
        for unit in overlap.units:
            assert text[unit.start : unit.end] == unit.text
        assert [unit.text for unit in overlap.units] == ["Nö 🎉!", RIVER, SCHOOL, BRIDGE]
        assert [unit.too_short for unit in overlap.units] == [True, False, False, False]
        firsts = [unit.first.key if unit.first else None for unit in overlap.units]
        assert firsts == [None, "a#1", "b#1", None]
        assert overlap.units[2].first == simdb.FirstMatch("b#1", "b", 200, 0, 1.0)
        assert pickle.loads(pickle.dumps(overlap)) == overlap


def test_pages_paragraphs_and_conditions(news: simdb.Database) -> None:
    with news:
        page = f"<title>No</title><p>{RIVER}<script>No</script><p>{SCHOOL}"
        assert news.overlap(html=page).found == news.overlap(html=page.encode("utf-16")).found == 2
        assert news.overlap(f"{RIVER} {SCHOOL}", unit="paragraph").judged == 1
        assert news.overlap(RIVER, since=200).total_documents == 1
        assert news.overlap(RIVER, scopes=["me"]).documents[0].key == "me"
        assert news.overlap(RIVER, limit=0).documents == ()
        assert news.overlap(RIVER, max_distance=0, min_similarity=1.0).share == 1.0
        assert news.overlap("").units == ()
        assert news.overlap(text_of(1)).share == 0.0


def test_what_cannot_be_is_refused(news: simdb.Database, bits: simdb.Database) -> None:
    with news:
        with pytest.raises(simdb.InputError, match="sentence"):
            news.overlap(RIVER, unit="word")  # type: ignore[arg-type]
        with pytest.raises(simdb.InputError, match="1048576"):
            news.overlap("A. " * 1_048_577)
        with pytest.raises(TypeError, match="text or html"):
            news.overlap(fingerprint=7)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword"):
            news.overlap(RIVER, order="similarity")  # type: ignore[call-arg]
        with pytest.raises(simdb.InputError):
            news.overlap(RIVER, max_distance=65)
        with pytest.raises(simdb.InputError):
            bits.overlap(RIVER)


def test_a_client_is_told_the_same(news: simdb.Database, tmp_path: Path) -> None:
    news.close()
    path = tmp_path / "news.simdb"
    with simdb.open(path, serve=True) as database, simdb.connect(path) as client:
        text = f"Nö 🎉! {RIVER} {SCHOOL}\n\n{BRIDGE}"
        assert client.overlap(text, without="me") == database.overlap(text, without="me")
        assert client.overlap(html=f"<p>{RIVER}", since=200, scopes=["a"], limit=0, unit="paragraph").found == 1
        with pytest.raises(simdb.InputError):
            client.overlap(RIVER, max_distance=65)
        with pytest.raises(simdb.InputError, match="in parts"):
            client.overlap("x" * (1 << 20))
