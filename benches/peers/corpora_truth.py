"""Finds the exact near-duplicates of a corpus, and judges by them what a peer removed.

The pairs come from an exact join, none of the peers has a part in it. In plain words: two sets that share many shingles
also share one of their few rarest. So only these are put into an index. Each document, from small to large, is
compared in full with those that share one of its rarest shingles, and are not too small. This is the prefix filter with
the filter by size and by position:
  Xiao, Wang, Lin, Yu: Efficient Similarity Joins for Near Duplicate Detection, WWW 2008.
What is rare is counted in a table by hash. Its counts may be too large; this changes the order only, not the result.
"""

import itertools
import re

import numba
import numpy

from corpora_data import SHINGLE, mixed

LEVELS = (0.7, 0.8)
TENTHS = (7, 8)
SUBSET = 200
WORD = re.compile(r"(?:[0-9a-zA-Z_]|[^\x00-\x7f])+")


@numba.njit(cache=True)
def set_keys(tokens, starts):
    """A hash of each set, equal for equal sets."""
    keys = numpy.zeros(len(starts) - 1, dtype=numpy.uint64)
    for number in range(len(keys)):
        for place in range(starts[number], starts[number + 1]):
            keys[number] += mixed(tokens[place])
    return keys


@numba.njit(cache=True)
def rarity(tokens, starts, order, bits):
    counts = numpy.zeros(1 << bits, dtype=numpy.uint16)
    for number in order:
        for place in range(starts[number], starts[number + 1]):
            slot = tokens[place] >> numba.uint64(64 - bits)
            if counts[slot] < 65535:
                counts[slot] += 1
    return counts


@numba.njit(cache=True)
def common(tokens, a, a_end, b, b_end, least):
    """How many shingles two sorted sets have in common, or -1 once it cannot be the least number."""
    shared = 0
    while a < a_end and b < b_end:
        if shared + min(a_end - a, b_end - b) < least:
            return -1
        if tokens[a] == tokens[b]:
            shared += 1
            a += 1
            b += 1
        elif tokens[a] < tokens[b]:
            a += 1
        else:
            b += 1
    return shared if shared >= least else -1


@numba.njit(cache=True)
def joined(tokens, starts, order, counts, bits, least):
    """The pairs of documents of `order`, which go from small to large, whose Jaccard is at least `least` tenths.

    Each row is the larger, the smaller, and 7 or 8 tenths that the pair has at least."""
    rows = 0
    for number in order:
        size = starts[number + 1] - starts[number]
        rows += size - (2 * least * size + 9 + least) // (10 + least) + 1
    assert rows < 2**31
    slots = 1
    while (1 << slots) < rows and slots < 27:
        slots += 1
    head = numpy.full(1 << slots, -1, dtype=numpy.int32)
    following = numpy.empty(rows, dtype=numpy.int32)
    row_token = numpy.empty(rows, dtype=numpy.uint64)
    row_document = numpy.empty(rows, dtype=numpy.int32)
    row_position = numpy.empty(rows, dtype=numpy.int32)
    seen = numpy.full(len(starts) - 1, -1, dtype=numpy.int32)
    found = numpy.empty((1024, 3), dtype=numpy.int32)
    rows, pairs = 0, 0
    for x in order:
        begin, end = starts[x], starts[x + 1]
        size = end - begin
        often = numpy.empty(size, dtype=numpy.uint16)
        for place in range(size):
            often[place] = counts[tokens[begin + place] >> numba.uint64(64 - bits)]
        # The sort is stable and the shingles are sorted, so the order is by count, then by hash: the same for all.
        ranked = numpy.argsort(often, kind="mergesort")
        for position in range(size - (least * size + 9) // 10 + 1):
            if often[ranked[position]] == 1:
                continue
            token = tokens[begin + ranked[position]]
            row = head[token >> numba.uint64(64 - slots)]
            while row >= 0:
                y = row_document[row]
                other = starts[y + 1] - starts[y]
                if 10 * other < least * size:
                    break
                if seen[y] != x and row_token[row] == token:
                    seen[y] = x
                    needed = (least * (size + other) + 9 + least) // (10 + least)
                    if min(size - position, other - row_position[row]) >= needed:
                        shared = common(tokens, begin, end, starts[y], starts[y + 1], needed)
                        union = size + other - shared
                        if shared >= 0 and 10 * shared >= least * union:
                            if pairs == len(found):
                                found = numpy.concatenate((found, numpy.empty_like(found)))
                            found[pairs, 0], found[pairs, 1] = x, y
                            found[pairs, 2] = 8 if 10 * shared >= 8 * union else 7
                            pairs += 1
                row = following[row]
        for position in range(size - (2 * least * size + 9 + least) // (10 + least) + 1):
            if often[ranked[position]] == 1:
                continue
            token = tokens[begin + ranked[position]]
            slot = token >> numba.uint64(64 - slots)
            row_token[rows], row_document[rows], row_position[rows] = token, x, position
            following[rows] = head[slot]
            head[slot] = rows
            rows += 1
    return found[:pairs].copy()


@numba.njit(cache=True)
def kept_greedily(order, starts, others):
    """How many of the documents of `order` an exact cleaning keeps: those that are near no earlier one it kept."""
    kept = numpy.zeros(len(starts) - 1, dtype=numpy.bool_)
    count = 0
    for number in order:
        near = False
        for place in range(starts[number], starts[number + 1]):
            near |= kept[others[place]]
        if not near:
            kept[number] = True
            count += 1
    return count


class Truth:
    """The exact pairs of a corpus. Documents with equal sets of shingles are one class, and classes are joined."""

    def __init__(self, corpus):
        tokens = numpy.fromfile(corpus.shingles, dtype=numpy.uint64)
        starts = corpus.starts
        _, first, self.classes = numpy.unique(set_keys(tokens, starts), return_index=True, return_inverse=True)
        self.sizes = numpy.bincount(self.classes)
        order = first[numpy.argsort(starts[first + 1] - starts[first], kind="stable")]
        bits = min(29, max(16, int(len(tokens)).bit_length() + 1))
        counts = rarity(tokens, starts, order, bits)
        self.pairs = joined(tokens, starts, order, counts, bits, TENTHS[0])
        self.pairs[:, :2] = self.classes[self.pairs[:, :2]]
        self.near = {level: self._near(tenths) for level, tenths in zip(LEVELS, TENTHS)}

    def _near(self, tenths):
        """For each class, where its near classes begin, and all of them."""
        pairs = self.pairs[self.pairs[:, 2] >= tenths]
        ends = numpy.concatenate([pairs[:, :2], pairs[:, 1::-1]])
        ends = ends[numpy.argsort(ends[:, 0], kind="stable")]
        counts = numpy.bincount(ends[:, 0], minlength=len(self.sizes))
        return numpy.concatenate([[0], numpy.cumsum(counts)]), numpy.ascontiguousarray(ends[:, 1])

    def check(self, corpus, rng):
        """Compares every two of some documents by sets of words, and demands the pairs that the join found."""
        size = min(SUBSET, corpus.count)
        chosen = set(rng.choice(corpus.count, size, replace=False).tolist())
        if len(self.pairs):
            members = self.pairs[rng.integers(0, len(self.pairs), size // 2), :2].reshape(-1)
            chosen |= set(numpy.flatnonzero(numpy.isin(self.classes, members))[: 2 * size].tolist())
        sets = {}
        for number in sorted(chosen):
            words = WORD.findall(corpus.text(number).lower())
            sets[number] = {tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1))}
        levels = {(min(a, b), max(a, b)): tenths for a, b, tenths in self.pairs.tolist()}
        equal = near = 0
        for a, b in itertools.combinations(sets, 2):
            shared = len(sets[a] & sets[b])
            union = len(sets[a]) + len(sets[b]) - shared
            wanted = max((tenths for tenths in TENTHS if 10 * shared >= tenths * union), default=0)
            one, two = sorted((int(self.classes[a]), int(self.classes[b])))
            given = 8 if one == two else levels.get((one, two), 0)
            if given != wanted or (one == two) != (shared == union):
                raise SystemExit(f"documents {a} and {b}: the join says {given} tenths, by comparison it is {wanted}")
            equal += one == two
            near += wanted > 0
        return len(sets), near

    def connected(self, a, b, level):
        """Whether documents are near, for arrays of documents."""
        a, b = self.classes[a].astype(numpy.int64), self.classes[b].astype(numpy.int64)
        pairs = self.pairs[self.pairs[:, 2] >= TENTHS[LEVELS.index(level)], :2].astype(numpy.int64)
        codes = numpy.sort(pairs.min(axis=1) * len(self.sizes) + pairs.max(axis=1))
        asked = numpy.minimum(a, b) * len(self.sizes) + numpy.maximum(a, b)
        return (a == b) | numpy.isin(asked, codes)

    def to_remove(self, kept, level):
        """How many of the kept documents an exact cleaning in their order still removes."""
        numbers = numpy.flatnonzero(kept)
        first = numpy.full(len(self.sizes), -1, dtype=numpy.int64)
        first[self.classes[numbers[::-1]]] = numbers[::-1]
        present = numpy.flatnonzero(first >= 0)
        order = present[numpy.argsort(first[present])]
        return len(numbers) - kept_greedily(order, *self.near[level])

    def judge(self, removed, level):
        """What a peer removed, against the exact pairs of a level."""
        starts, others = self.near[level]
        classes = self.classes[removed]
        alike = (self.sizes > 1) | (numpy.diff(starts) > 0)
        right = int(numpy.count_nonzero(alike[classes]))
        kept_of = numpy.bincount(self.classes[~removed], minlength=len(self.sizes)) > 0
        beside = numpy.zeros(len(self.sizes), dtype=bool)
        owners = numpy.repeat(numpy.arange(len(self.sizes)), numpy.diff(starts))
        beside[owners[kept_of[others]]] = True
        covered = int(numpy.count_nonzero((kept_of | beside)[classes]))
        left = self.to_remove(~removed, level)
        return {"right": right, "covered": covered, "left": int(left)}
