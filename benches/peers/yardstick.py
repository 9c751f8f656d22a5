"""The yardstick of `simdb eval`, for peers: recall by bands of Jaccard similarity, and false matches.

`simdb eval` measures only what is built into it. So this does the same for the descriptions of other libraries. The
tokens are those of `text_peers.py`, which are near to those of simdb but not always the same. So the number of
unrelated pairs may differ in its last digits from that of simdb. `quality.py` prints both.
"""

import csv
import gzip
from typing import NamedTuple

import numpy
import scipy.sparse

import text_peers

BANDS = (0.9, 0.8, 0.7, 0.5)
RELATED = 0.5


class Scale(NamedTuple):
    """The thresholds of a method: what they are called, and the least score that reaches each, strictest first.
    Scores are whole numbers: a distance below zero, or the number of equal hashes."""

    name: str
    thresholds: list
    least: list


def distances(most):
    return Scale("k", [float(it) for it in range(most + 1)], [-it for it in range(most + 1)])


def similarities(hashes):
    """From 1 down to 0.3, in steps of 0.05."""
    steps = range(20, 5, -1)
    return Scale("similarity", [it / 20 for it in steps], [-(-it * hashes // 20) for it in steps])


class Yardstick:
    """What the peers are measured against, for the documents of a set."""

    def __init__(self, documents, pairs, judgements):
        self.tokens = [text_peers.tokens_of(it["text"]) for it in documents]
        # Documents without a token match nothing: any program would leave them out.
        self.valid = numpy.array([bool(it) for it in self.tokens])
        numbers = {}
        names = [it["group"] if it["group"] is not None else number for number, it in enumerate(documents)]
        self.groups = numpy.array([numbers.setdefault(name, len(numbers)) for name in names])
        keys = {it["id"]: number for number, it in enumerate(documents)}
        self.banded, self.judged = labelled(pairs, keys, judgements)
        first, second, similarity = near_pairs(self.tokens)
        apart = (similarity >= RELATED) & (self.groups[first] != self.groups[second])
        self.related = first[apart], second[apart]
        self.unrelated = self.pairs_of_different_groups() - len(self.related[0])

    def pairs_of_different_groups(self):
        def pairs(count):
            return int((count.astype(numpy.int64) * (count - 1) // 2).sum())

        return pairs(numpy.array([len(self.groups)])) - pairs(numpy.bincount(self.groups))

    def measure(self, method, size, scale, scores):
        """The points of a method, in the words of `simdb eval --json`. `scores(a, b)` are the scores of pairs, of
        an array of documents and another or a single one."""
        least = numpy.array(scale.least)
        matched = numpy.zeros(len(least), dtype=numpy.int64)
        for row in numpy.flatnonzero(self.valid):
            others = row + 1 + numpy.flatnonzero(self.valid[row + 1 :] & (self.groups[row + 1 :] != self.groups[row]))
            matched += reached(scores(others, row), least)
        matched -= self.reached(self.related, scores, least)
        bands = [self.reached(pairs, scores, least) for pairs in self.banded]
        same, different = (self.reached(pairs, scores, least) for pairs in self.judged)
        sizes = [len(pairs[0]) for pairs in self.banded]
        points = []
        for at, threshold in enumerate(scale.thresholds):
            point = {
                "method": method,
                "bytes": size,
                "threshold": threshold,
                "threshold_name": scale.name,
                "band_recall": [int(it[at]) / size if size else None for it, size in zip(bands, sizes, strict=True)],
                "false_matches": int(matched[at]),
                "false_per_million": 1e6 * int(matched[at]) / self.unrelated,
            }
            if self.has_verdicts():
                found, falsely = int(same[at]), int(different[at])
                point["precision"] = found / (found + falsely) if found + falsely else None
                point["recall"] = found / len(self.judged[0][0])
                point["f1"] = 2 * found / (len(self.judged[0][0]) + found + falsely)
            points.append(point)
        return points

    def has_verdicts(self):
        return all(len(pairs[0]) for pairs in self.judged)

    def reached(self, pairs, scores, least):
        valid = self.valid[pairs[0]] & self.valid[pairs[1]]
        return reached(scores(pairs[0][valid], pairs[1][valid]), least)


def reached(scores, least):
    """How many scores reach each threshold. The thresholds become looser."""
    return len(scores) - numpy.searchsorted(numpy.sort(scores), least)


def labelled(path, keys, judgements):
    """The labelled pairs of each band, and those that people call the same and different. Pairs of unknown documents
    are left out, and so are repeated ones."""
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    bands, verdicts, seen = [[] for _ in BANDS], [[], []], set()
    for row in rows:
        pair = keys.get(row["id_a"]), keys.get(row["id_b"])
        if None in pair or tuple(sorted(pair)) in seen:
            continue
        seen.add(tuple(sorted(pair)))
        similarity = float(row["j4"] if "j4" in row else row["j4_text"])
        band = next((number for number, least in enumerate(BANDS) if similarity >= least), None)
        if band is not None:
            bands[band].append(pair)
        for labels, pairs in zip(judgements, verdicts, strict=True):
            if row["label"] in labels:
                pairs.append(pair)
    return [columns(pairs) for pairs in bands], [columns(pairs) for pairs in verdicts]


def columns(pairs):
    table = numpy.array(pairs, dtype=numpy.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def near_pairs(tokens):
    """All pairs with a Jaccard similarity of at least RELATED, by the product of the incidence matrix with itself."""
    matrix, sizes = incidence(tokens)
    found = []
    for begin in range(0, len(sizes), 256):
        common = (matrix[begin : begin + 256] @ matrix.T).tocoo()
        first, second, both = common.row + begin, common.col, common.data.astype(numpy.int64)
        similarity = both / (sizes[first] + sizes[second] - both)
        near = (first < second) & (similarity >= RELATED)
        found.append((first[near], second[near], similarity[near]))
    return tuple(numpy.concatenate(parts) for parts in zip(*found, strict=True))


def incidence(tokens):
    """Which documents have which shingles, without the shingles that only one has; and the shingles of each."""
    rng = numpy.random.default_rng(20_070_508)
    odd = rng.integers(0, 2**63, text_peers.SHINGLE, dtype=numpy.uint64) * numpy.uint64(2) + numpy.uint64(1)
    numbers = {}
    sets = []
    for words in tokens:
        words = numpy.array([numbers.setdefault(word, len(numbers) + 1) for word in words], dtype=numpy.uint64)
        words = mixed(words)
        count = max(len(words) - len(odd) + 1, min(len(words), 1))
        parts = [words[at : at + count] * factor for at, factor in enumerate(odd) if at + count <= len(words)]
        sets.append(numpy.unique(sum(parts[1:], parts[0])) if parts else words)
    sizes = numpy.array([len(it) for it in sets], dtype=numpy.int64)
    rows = numpy.repeat(numpy.arange(len(sets)), sizes)
    _, columns, owners = numpy.unique(numpy.concatenate(sets), return_inverse=True, return_counts=True)
    shared = owners[columns] > 1
    ones = numpy.ones(int(shared.sum()), dtype=numpy.int32)
    shape = len(sets), len(owners)
    return scipy.sparse.csr_matrix((ones, (rows[shared], columns[shared])), shape=shape), sizes


def mixed(words):
    """Spreads numbers over all 64 bits: the finalizer of SplitMix64."""
    words = words * numpy.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return words ^ (words >> numpy.uint64(31))
