"""How much of a text stood elsewhere: plain data."""

from typing import NamedTuple


class FirstMatch(NamedTuple):
    """Where a unit of a text was seen first."""

    key: str
    document: str
    seen: int
    distance: int
    similarity: float | None


class OverlapUnit(NamedTuple):
    """A sentence or a paragraph of a text."""

    text: str
    start: int
    end: int
    too_short: bool
    first: FirstMatch | None


class OverlapDocument(NamedTuple):
    """A document that has units of a text."""

    key: str
    units: int
    characters: int
    share: float
    first_units: int
    seen: int


class Overlap(NamedTuple):
    """How much of a text stood elsewhere."""

    share: float
    judged: int
    too_short: int
    found: int
    characters: int
    found_characters: int
    documents: tuple[OverlapDocument, ...]
    total_documents: int
    units: tuple[OverlapUnit, ...]


for _class in (FirstMatch, OverlapUnit, OverlapDocument, Overlap):
    _class.__module__ = "simdb"
del _class
