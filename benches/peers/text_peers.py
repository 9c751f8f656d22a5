"""The peers that make fingerprints of texts, and their texts. `text.py` and `quality.py` use it.

    python benches/peers/text_peers.py time NAME FILE

prints the seconds that one pass of a Python peer over the texts of FILE takes. Each peer is used as its
documentation does:

simhash     `Simhash(text)`: the runs of four characters, lower-cased, without what stands between words, each
            with the number of times it occurs.
datasketch  `MinHash(num_perm=128)`, `update_batch` with the shingles of four tokens. A token is a word, or one
            character in scripts without spaces. Shingles are what the yardstick of similarity is made of, so
            they are the best that this peer can be given.
gaoya       its Python package, which makes fingerprints only to put them into an index. So the time has the
            index in it. Words, lower-cased, as in its README.

gaoya in Rust is in `src/bin/text/peers.rs`.
"""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unicodedata

import numpy

HERE = pathlib.Path(__file__).resolve().parent
RUST = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release" / "text"
PERMUTATIONS = 128
SHINGLE = 4

# Characters of scripts that put no spaces between words.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Near to the words of Unicode Standard Annex #29: a stop or an apostrophe inside a word or a number is part of it.
WORD = f"[^\\W{UNSPACED}]+"
INSIDE = r"(?:(?<=[^\W\d_])['’.:·](?=[^\W\d_])|(?<=\d)['’.,;](?=\d))"
TOKENS = re.compile(f"[{UNSPACED}]|{WORD}(?:{INSIDE}{WORD})*")


def build():
    """Builds the Rust program of this package."""
    manifest = str(HERE / "Cargo.toml")
    subprocess.run(["cargo", "build", "--release", "--manifest-path", manifest, "--bin", "text"], check=True)


def write_visible(documents, path, html_field=None):
    """Writes the texts of a set as JSON Lines: of HTML, the visible text as simdb sees it."""
    command = [RUST, "visible", documents, *(["--html-field", html_field] if html_field else [])]
    with open(path, "wb") as file:
        subprocess.run(command, stdout=file, check=True)


def read_texts(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tokens_of(text):
    return TOKENS.findall(unicodedata.normalize("NFKC", text).lower())


def shingles_of(tokens):
    """The distinct shingles. A text with fewer tokens has one, of all its tokens."""
    count = max(len(tokens) - SHINGLE + 1, 1 if tokens else 0)
    return {" ".join(tokens[at : at + SHINGLE]) for at in range(count)}


def simhash_of(text):
    from simhash import Simhash

    class Wide(Simhash):
        """With numpy 2, version 2.1.2 fails where a feature occurs more than 255 times. Its other way to add up gives
        the same fingerprint."""

        large_weight_cutoff = sys.maxsize

    try:
        return Simhash(text).value
    except OverflowError:
        return Wide(text).value


def datasketch_of(text):
    from datasketch import MinHash

    minhash = MinHash(num_perm=PERMUTATIONS)
    minhash.update_batch([shingle.encode() for shingle in shingles_of(tokens_of(text))])
    return minhash


def each(describe):
    """Describes texts one by one. Tells what it made, so that two passes can be compared."""

    def one_pass(texts):
        made = [describe(text) for text in texts]
        return made, [getattr(it, "hashvalues", it) for it in made]

    return one_pass


def gaoya_pass(make):
    """Puts texts into a new index. What it made shows itself when the index is asked for the first text."""

    def one_pass(texts):
        index = make()
        for number, text in enumerate(texts):
            index.insert_document(number, text)
        return index, [index]

    return one_pass


def gaoya_simhash_index():
    import gaoya

    return gaoya.simhash.SimHashStringIndex(analyzer="word", lowercase=True, ngram_range=(1, 1))


def gaoya_minhash_index():
    import gaoya

    return gaoya.minhash.MinHashStringIndex(32, 0.5, 42, 3, 42 * 3, "word", True, (1, 1))


PYTHON_PEERS = {
    "simhash": ("simhash", each(simhash_of)),
    "datasketch-minhash": ("datasketch", each(datasketch_of)),
    "gaoya-python-simhash": ("gaoya", gaoya_pass(gaoya_simhash_index)),
    "gaoya-python-minhash": ("gaoya", gaoya_pass(gaoya_minhash_index)),
}


def agree(first, second, texts):
    """Whether two passes made the same. Of an index: whether it finds each text that is in it."""
    if hasattr(first[0], "query"):
        return all(number in first[0].query(text) for number, text in enumerate(texts[:100]))
    return all(numpy.array_equal(a, b) for a, b in zip(first, second, strict=True))


def timed(peer, path):
    """The report of one pass over the texts, after an untimed one with equal results."""
    package, one_pass = PYTHON_PEERS[peer]
    texts = [it["text"] for it in read_texts(path)]
    _, expected = one_pass(texts)
    begin = time.perf_counter()
    made, found = one_pass(texts)
    seconds = time.perf_counter() - begin
    if not agree(expected, found, texts):
        raise SystemExit(f"{peer}: the same text has two descriptions")
    return {
        "version": importlib.metadata.version(package),
        "documents": len(texts),
        "bytes": sum(len(text.encode()) for text in texts),
        "seconds": [seconds],
    }


if __name__ == "__main__":
    print(json.dumps(timed(sys.argv[2], sys.argv[3])))
