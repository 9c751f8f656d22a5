"""Makes the corpora of `corpora.py`, and the shingles of their documents.

    python benches/peers/corpora_data.py --from FOLDER --from FOLDER --output corpus.jsonl

writes a corpus of real texts: every file of the folders that is UTF-8 text of 200 to 200,000 bytes, a JSON object with
`id` and `text` on each line. Folders of source code and of documents hold many near copies, such as the same file
in several releases.

A word is a run of ASCII letters, digits and `_`, and of all characters beyond ASCII, in lower case. A shingle is five
words in a row, told from others by a hash of 64 bits. The shingles of a document are a set. Of a text of less
than five words, all words are the only shingle.
"""

import argparse
import os
import pathlib
import sys

import numba
import numpy
import orjson

SEED = 20_070_508
SHINGLE = 5
LEAST_WORDS = 20
PASSAGES, PASSAGE_WORDS, PASSAGE_BYTES = 4, 25, 400
WORDS = PASSAGES * PASSAGE_WORDS
COPIES = 0.3
RATES = (0.01, 0.02, 0.05, 0.1)
SOURCE_BYTES = 600_000_000


@numba.njit(cache=True)
def is_word(byte):
    return 48 <= byte <= 57 or 97 <= byte <= 122 or 65 <= byte <= 90 or byte == 95 or byte >= 128


@numba.njit(cache=True)
def mixed(word):
    word = (word ^ (word >> numba.uint64(30))) * numba.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> numba.uint64(27))) * numba.uint64(0x94D049BB133111EB)
    return word ^ (word >> numba.uint64(31))


@numba.njit(cache=True)
def hashed_shingles(text, out):
    """Writes the sorted, different shingles of a lower-case text to `out`; tells how many they are, and the words."""
    words, place, size = 0, 0, len(text)
    while place < size:
        while place < size and not is_word(text[place]):
            place += 1
        if place == size:
            break
        value = numba.uint64(0xCBF29CE484222325)
        while place < size and is_word(text[place]):
            value = (value ^ numba.uint64(text[place])) * numba.uint64(0x100000001B3)
            place += 1
        out[words] = mixed(value)
        words += 1
    if words == 0:
        return 0, 0
    count = max(words - SHINGLE + 1, 1)
    for first in range(count):
        value = numba.uint64(0x9E3779B97F4A7C15)
        for word in range(first, min(first + SHINGLE, words)):
            value = mixed(value * numba.uint64(3) + out[word])
        out[first] = value
    out[:count] = numpy.sort(out[:count])
    different = 1
    for place in range(1, count):
        if out[place] != out[different - 1]:
            out[different] = out[place]
            different += 1
    return different, words


class Corpus:
    """The documents as two files of JSON lines, as equal in number as they can be, and their shingles as a third.

    The `id` of a document is its number. Two files, because some peers give each process a file of its own.
    """

    def __init__(self, folder):
        self.folder = folder
        self.parts = [folder / "part-0.jsonl", folder / "part-1.jsonl"]
        self.shingles = folder / "shingles.u64"

    def write(self, texts, expected):
        """Writes the texts. The second file begins at half of the expected number."""
        lines, sizes, self.first_of_second = [], [], (expected + 1) // 2
        out = numpy.empty(1 << 16, dtype=numpy.uint64)
        with open(self.shingles, "wb") as hashes, open(self.parts[0], "wb") as one, open(self.parts[1], "wb") as two:
            for text in texts:
                lower = text.lower().encode()
                if len(lower) >= 2 * len(out):
                    out = numpy.empty(len(lower), dtype=numpy.uint64)
                different, words = hashed_shingles(numpy.frombuffer(lower, dtype=numpy.uint8), out)
                if words < LEAST_WORDS:
                    continue
                line = orjson.dumps({"id": str(len(sizes)), "text": text}) + b"\n"
                (one if len(sizes) < self.first_of_second else two).write(line)
                hashes.write(out[:different].tobytes())
                lines.append(len(line))
                sizes.append(different)
        self.count = len(sizes)
        self.starts = numpy.concatenate([[0], numpy.cumsum(numpy.array(sizes, dtype=numpy.int64))])
        ends = numpy.cumsum(numpy.array(lines, dtype=numpy.int64))
        self.bytes = int(ends[-1])
        # Places of lines as if the two files were one.
        self.lines = numpy.concatenate([[0], ends])
        return self

    def spans(self, number):
        """The file of a document, and where its line is in it."""
        part = int(number >= self.first_of_second)
        base = int(self.lines[min(self.first_of_second, self.count)]) if part else 0
        return part, int(self.lines[number]) - base, int(self.lines[number + 1]) - base

    def text(self, number):
        part, begin, end = self.spans(number)
        with open(self.parts[part], "rb") as file:
            file.seek(begin)
            return orjson.loads(file.read(end - begin))["text"]


def count_lines(path):
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b""))


def real(path, documents):
    """The texts of a file of JSON lines, or an even sample of so many of them."""
    lines = count_lines(path)
    step = max(1.0, lines / documents) if documents else 1.0
    wanted = 0.0
    with open(path, "rb") as file:
        for number, line in enumerate(file):
            if number >= int(wanted):
                wanted += step
                yield orjson.loads(line)["text"]


@numba.njit(cache=True)
def word_bounds(text, starts, ends):
    words, inside = 0, False
    for place in range(len(text)):
        if is_word(text[place]):
            if not inside:
                starts[words] = place
            inside = True
        elif inside:
            ends[words] = place
            words += 1
            inside = False
    return words


class Made:
    """Documents of 100 words, made of the texts of a real corpus.

    A source is four passages of 25 words each, cut from random places of the texts as they stand there, with all
    between the words. A share of 0.3 of the documents are copies: each is a random earlier source in which 1, 2, 5 or
    10 of its 100 words are replaced by random words of the texts, each rate equally often. The same seed, texts and
    number give the same documents.
    """

    def __init__(self, path, count):
        step = max(1, os.path.getsize(path) // SOURCE_BYTES + 1)
        with open(path, "rb") as file:
            texts = [orjson.loads(line)["text"].encode() for n, line in enumerate(file) if n % step == 0]
        # Between texts stand so many bytes that no passage reaches from one to the next.
        self.buffer = (b"\n" * (PASSAGE_BYTES + 1)).join(texts) + b"\n"
        del texts
        bound = len(self.buffer) // 2 + 1
        starts, ends = numpy.empty(bound, dtype=numpy.int32), numpy.empty(bound, dtype=numpy.int32)
        words = word_bounds(numpy.frombuffer(self.buffer, dtype=numpy.uint8), starts, ends)
        self.starts, self.ends = starts[:words].copy(), ends[:words].copy()
        self.rng = numpy.random.default_rng([SEED, count])
        self.count = count
        copied = self.rng.random(count) < COPIES
        copied[0] = False
        sources = numpy.flatnonzero(~copied)
        earlier = numpy.cumsum(~copied)[copied]
        self.copies = numpy.flatnonzero(copied)
        self.sources = sources[(self.rng.random(len(earlier)) * earlier).astype(numpy.int64)]
        self.rates = self.rng.integers(0, len(RATES), len(self.copies)).astype(numpy.int8)
        self.firsts = self._passages()

    def _passages(self):
        """The first words of the passages of each document."""
        last = PASSAGE_WORDS - 1
        firsts = self.rng.integers(0, len(self.starts) - last, self.count * PASSAGES, dtype=numpy.int32)
        wide = numpy.arange(len(firsts))
        while wide.size:
            begin = firsts[wide]
            wide = wide[self.ends[begin + last] - self.starts[begin] > PASSAGE_BYTES]
            firsts[wide] = self.rng.integers(0, len(self.starts) - last, wide.size, dtype=numpy.int32)
        return firsts.reshape(-1, PASSAGES)

    def texts(self):
        buffer, starts, ends, at = self.buffer, self.starts, self.ends, 0
        for begin in range(0, self.count, 100_000):
            end = min(begin + 100_000, self.count)
            stop = int(numpy.searchsorted(self.copies, end))
            origins = numpy.arange(begin, end)
            origins[self.copies[at:stop] - begin] = self.sources[at:stop]
            firsts = self.firsts[origins]
            begins = starts[firsts].tolist()
            finishes = ends[firsts + PASSAGE_WORDS - 1].tolist()
            changes = self._changes(at, stop, begin, firsts)
            for number in range(end - begin):
                passages = zip(begins[number], finishes[number])
                if number in changes:
                    text = b"\n".join(self._changed(*span, changes[number]) for span in passages)
                else:
                    text = b"\n".join([buffer[first:last] for first, last in passages])
                yield text.decode()
            at = stop

    def forget_texts(self):
        """Frees the memory of all but which document is a copy of which."""
        del self.buffer, self.starts, self.ends, self.firsts

    def _changes(self, at, stop, begin, firsts):
        """For each copy of a batch, the words to replace, as their places in the texts, and what replaces them."""
        counts = numpy.rint(numpy.array(RATES) * WORDS).astype(int)[self.rates[at:stop]]
        chosen = self.rng.random((stop - at, WORDS)).argsort(axis=1)
        changes = {}
        for copy, count, places in zip((self.copies[at:stop] - begin).tolist(), counts.tolist(), chosen):
            words = firsts[copy][places[:count] // PASSAGE_WORDS] + places[:count] % PASSAGE_WORDS
            others = self.rng.integers(0, len(self.starts), count)
            spans = zip(self.starts[words].tolist(), self.ends[words].tolist())
            new = (self.buffer[self.starts[other] : self.ends[other]] for other in others.tolist())
            changes[copy] = sorted(zip(spans, new), reverse=True)
        return changes

    def _changed(self, first, last, changes):
        """A passage with those of its words replaced that are to be."""
        passage = self.buffer[first:last]
        for (start, end), new in changes:
            if first <= start < last:
                passage = passage[: start - first] + new + passage[end - first :]
        return passage


def gathered(folders):
    """The path and text of each file of the folders that is text."""
    for folder in folders:
        for path, inside, names in os.walk(folder):
            inside.sort()
            for file in (pathlib.Path(path, name) for name in sorted(names)):
                if file.is_symlink() or not file.is_file() or not 200 <= file.stat().st_size <= 200_000:
                    continue
                try:
                    text = file.read_text(encoding="utf-8")
                except (UnicodeDecodeError, PermissionError):
                    continue
                if "\0" not in text:
                    yield str(file), text


def main():
    parser = argparse.ArgumentParser(description="Gather text files into a corpus", allow_abbrev=False)
    parser.add_argument("--from", dest="folders", action="append", required=True, help="a folder; may be repeated")
    parser.add_argument("--output", required=True, help="the file of JSON lines")
    options = parser.parse_args()
    count = 0
    with open(options.output, "wb") as file:
        for path, text in gathered(options.folders):
            file.write(orjson.dumps({"id": path, "text": text}) + b"\n")
            count += 1
    print(f"{count:,} documents", file=sys.stderr)


if __name__ == "__main__":
    main()
