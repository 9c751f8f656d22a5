"""The points of the indexes on disk of this year, and of rensa, for `quality.py`: which pairs they find.

lance       A dataset of the texts with an index MINHASHLSH, which is asked for each text. Once as it is by default:
            words between white space and punctuation, in shingles of three, 128 hashes of two bytes in 16 bands. Once
            with the tokenizer `icu`, which parts scripts without spaces, and shingles of four, as the yardstick has.
            "all pairs" is the second with 128 bands: each pair with an equal hash is then a candidate. So it tells
            which pairs an index with 16 bands misses.
incrededup  The program, over a SQLite database of the texts, with the least similarity of 0.5. It takes sequences of
            three characters, 128 hashes in 16 bands, and no pairs whose lengths differ by more than 30 %.
rensa       RMinHash of shingles of four tokens with 128 hashes, and the pairs that its index of 16 bands finds.
"""

import pathlib
import re
import sqlite3
import subprocess
import tempfile
import uuid

import numpy

import text_peers
import today_peers
import yardstick

HASHES = 128
BANDS = 16
LSH_SIMILARITY = 0.7
LEAST = 0.5
# The similarities at which the pairs are counted that an index should find.
COUNTED = (0.8, 0.7)
EDGE = re.compile(r"child=(\S+) parent=(\S+) jaccard=(\S+)")


def of_found(count, found):
    """Scores by the number of equal hashes, of the pairs that were found. `found` has rows of two documents and that
    number; a pair may be there twice. All others score -1."""
    found = numpy.array(found, dtype=numpy.int64).reshape(-1, 3)
    found = found[found[:, 0] != found[:, 1]]
    codes, first = numpy.unique(found[:, :2].min(axis=1) * count + found[:, :2].max(axis=1), return_index=True)
    # The last one is larger than any pair, so that a place in the list is never beyond its end.
    codes, equal = numpy.append(codes, count**2), numpy.append(found[first, 2], -1)

    def scores(a, b):
        asked = numpy.minimum(a, b).astype(numpy.int64) * count + numpy.maximum(a, b)
        places = numpy.searchsorted(codes, asked)
        return numpy.where(codes[places] == asked, equal[places], -1)

    return scores


def scale(least=0.0):
    """The similarities that are shown, and 0 for all that is found."""
    steps = yardstick.similarities(HASHES)
    shown = [(similarity, number) for similarity, number in zip(*steps[1:]) if similarity >= least]
    return yardstick.Scale(steps.name, *map(list, zip(*shown, (0.0, 0))))


def with_estimates(points, measures, estimates, found):
    """Adds to some points how many pairs have an estimate so high, and how many of them the index finds."""
    for point in points:
        if point["threshold"] in COUNTED:
            least = round(HASHES * point["threshold"] + 0.499)
            wanted = met = 0
            for row in numpy.flatnonzero(measures.valid):
                others = row + 1 + numpy.flatnonzero(measures.valid[row + 1 :])
                near = others[estimates(others, row) >= least]
                wanted += len(near)
                met += int(numpy.count_nonzero(found(near, row) >= least))
            point["estimates"] = [wanted, met]
    return points


def by_lance(measures, texts):
    icu = {"shingle_size": text_peers.SHINGLE, "tokenizer": {"base_tokenizer": "icu"}}
    points = []
    for name, parameters in (("lance", {}), ("lance, icu, 4 tokens", icu)):
        found = of_found(len(texts), lance_pairs(texts, parameters))
        estimates = of_found(len(texts), lance_pairs(texts, {**parameters, "num_bands": HASHES}))
        measured = measures.measure(name, 2 * HASHES, scale(), found)
        points += with_estimates(measured, measures, estimates, found)
    return points + measures.measure("lance, icu, 4 tokens, all pairs", 2 * HASHES, scale(), estimates)


def lance_pairs(texts, parameters):
    import lance
    import pyarrow
    from lance.indices import IndexConfig
    from lance.query import MinHashQuery

    with tempfile.TemporaryDirectory(prefix="simdb-quality-") as folder:
        table = pyarrow.table({"number": list(range(len(texts))), "text": texts})
        dataset = lance.write_dataset(table, pathlib.Path(folder) / "texts.lance")
        dataset.create_scalar_index("text", IndexConfig("MINHASHLSH", parameters))
        found = []
        for number, text in enumerate(texts):
            search = {"nearest": MinHashQuery(text, "text"), "limit": len(texts)}
            rows = dataset.to_table(columns=["number", "_distance"], **search)
            equal = numpy.rint(HASHES * (1 - rows["_distance"].to_numpy())).astype(numpy.int64)
            others = rows["number"].to_numpy()
            later = others > number
            found.append(numpy.stack([numpy.full(later.sum(), number), others[later], equal[later]], axis=1))
    return numpy.concatenate(found)


def by_incrededup(measures, texts):
    with tempfile.TemporaryDirectory(prefix="simdb-quality-") as folder:
        folder = pathlib.Path(folder)
        peer = today_peers.Incrededup(folder)
        rows = [(str(uuid.UUID(int=number)), text, len(text.encode())) for number, text in enumerate(texts)]
        peer.documents.execute("BEGIN")
        peer.documents.executemany("INSERT INTO documents VALUES (?, ?, ?, NULL, NULL)", rows)
        peer.documents.execute("COMMIT")
        found = folder / "index" / "documents"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*peer.command(), "--threshold", str(LEAST), "--skip-db-write"], check=True, **quiet)
        inspect = [today_peers.INCREDEDUP, "--inspect", found, "--inspect-limit", str(len(texts) ** 2)]
        shown = subprocess.run(inspect, stdout=subprocess.PIPE, text=True, check=True).stdout
        edges = [
            (uuid.UUID(child).int, uuid.UUID(parent).int, round(HASHES * float(similarity)))
            for child, parent, similarity in EDGE.findall(shown)
        ]
        peer.documents.close()
    return measures.measure("incrededup", 4 * HASHES, scale(LEAST), of_found(len(texts), edges))


def by_rensa(measures):
    import rensa

    shingles = [sorted(text_peers.shingles_of(tokens)) for tokens in measures.tokens]
    made = rensa.RMinHash.from_token_sets(shingles, num_perm=HASHES, seed=42)
    hashes = numpy.array([it.digest() for it in made], dtype=numpy.uint32)
    index = rensa.RMinHashLSH(threshold=LSH_SIMILARITY, num_perm=HASHES, num_bands=BANDS)
    found = []
    for number in numpy.flatnonzero(measures.valid):
        others = numpy.array(sorted(set(index.query(made[number]))), dtype=numpy.int64)
        equal = numpy.count_nonzero(hashes[others] == hashes[number], axis=1)
        found.append(numpy.stack([others, numpy.full(len(others), number), equal], axis=1))
        index.insert(int(number), made[number])

    def estimates(a, b):
        return numpy.count_nonzero(hashes[a] == hashes[b], axis=1)

    points = measures.measure("rensa minhash", 4 * HASHES, yardstick.similarities(HASHES), estimates)
    candidates = of_found(len(made), numpy.concatenate(found))
    measured = measures.measure("rensa LSH, 16 bands", 4 * HASHES, scale(), candidates)
    return points + with_estimates(measured, measures, estimates, candidates)
