"""The twin of the schemes in Python: it makes their test vectors, and of more texts what simdb makes."""

from __future__ import annotations

import random
import runpy
import subprocess
import sys
import unicodedata
from typing import Any

import pytest

import simdb
from conftest import DATA

TWIN = DATA / "schemes" / "twin.py"

# Where a text is most likely to become another: marks, capitals, forms of compatibility, scripts without spaces.
ODD = "\u0301\u0307\u0323\u0345\u0300ſßẞİıΐςΆ\u0640ﻻﬁＡ½\u00ad\u200b\u200d\ufe0f中文か\u3099カｶﾞ각\u1100\u1161ไทยൻ\u0d4dی۴औ™ㆍ\u20e3\ufe7cأ\u0653\u05b0ต\u0e48\u0e4dำเÐ゛²③न\u094dदबँئةи\u0329ุ\u102d\u102f\u17b8\u17c1ʼ_.'1 "


@pytest.fixture(scope="module")
def twin() -> dict[str, Any]:
    return runpy.run_path(str(TWIN))


def test_the_twin_makes_every_vector() -> None:
    made = subprocess.run([sys.executable, TWIN], capture_output=True, text=True, timeout=60)
    assert (made.returncode, made.stdout.split(",")[-1]) == (0, " 0 values differ\n"), made.stdout + made.stderr


def assert_equal(twin: dict[str, Any], texts: list[str]) -> None:
    """The twin and simdb make the same fingerprints and sketches of these texts, by every scheme."""
    schemes = list(twin["SEEDS"])
    made = [twin["of_text"](text, schemes) for text in texts]
    for scheme in schemes:
        fingerprinter = simdb.Fingerprinter(scheme)
        for text, own in zip(texts, made, strict=True):
            document = fingerprinter.document("key", text)
            fingerprint = own["fingerprints"][scheme]
            assert document.fingerprint == (fingerprint and int(fingerprint, 16)), ascii(text)
            assert document.sketch == (fingerprint and bytes.fromhex(own["sketch16"])), ascii(text)


def test_the_twin_makes_of_real_pages_what_simdb_makes(twin: dict[str, Any], pages: list[dict[str, Any]]) -> None:
    fingerprinter = simdb.Fingerprinter()
    assert_equal(twin, [fingerprinter.text_of_html(page["html"]) for page in pages[::40]])


def test_the_twin_makes_of_any_characters_what_simdb_makes(twin: dict[str, Any]) -> None:
    seed = 2026
    drawn = random.Random(seed)
    known = [code for code in range(0x20, 0x2FA20) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    texts = []
    for _ in range(400):
        characters = [
            drawn.choice(ODD) if drawn.random() < 0.5 else chr(drawn.choice(known)) if drawn.random() < 0.5 else " "
            for _ in range(drawn.randrange(60))
        ]
        texts.append("".join(characters))
    assert_equal(twin, texts)
