"""Measures how good fingerprints are on labelled documents, beside other libraries, and writes Markdown tables.

    pip install -r benches/peers/requirements.txt
    cargo build --release --features cli
    python benches/peers/quality.py --data FOLDER --output quality.md --plots plots

FOLDER holds the labelled sets: `SET/docs.jsonl.gz` and `SET/pairs.tsv`, or `SET/pairs.tsv.gz`. Those that are not
there are left out. For each set it runs `simdb eval --method all`, and then the peers on the same texts and pairs,
with the same yardstick (`yardstick.py`). The peers and how they are used stand in `text_peers.py` and
`src/bin/text/peers.rs`. It measures no times. `--results` keeps all points as JSON, and `--from` writes the tables
from such a file again.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

import quality_tables
import text_peers
import yardstick

SIMDB = text_peers.HERE.parent.parent / "target" / "release" / "simdb"
MAX_DISTANCE = 24
MINHASHES = 42 * 3
LSH_SIMILARITY = 0.7

# The labels that mean the same, and those that mean different, where people have judged; and the field that holds
# HTML. The recorded changes of recrawl-html are the judgement of the program that reads these pages for people.
SETS = {
    "crawl-html": {},
    "install-guide-html": {},
    "licenses": {},
    "mail-spam": {"html_field": "text"},
    "manpages": {},
    "manpages-zh": {},
    "pg-docs-html": {},
    "recrawl-html": {"same": ["same", "same-far"], "different": ["changed"]},
    "terms-versions": {},
    "webpairs": {"same": ["3"], "different": ["0.5"]},
    "zh-cctv": {"html_field": "text"},
    "zh-docs": {},
    "zh-laws": {},
    "plagiarism-short": {"same": ["cut"], "different": ["non"]},
    "petclinic-dom": {"same": ["clone", "near-dup"], "different": ["distinct"]},
}


def arguments():
    parser = argparse.ArgumentParser(description="Measure quality beside peers", allow_abbrev=False)
    parser.add_argument("--data", type=pathlib.Path, help="the folder of labelled sets")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the file for the tables")
    parser.add_argument("--plots", type=pathlib.Path, help="a folder for the curves that simdb eval draws")
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated; default: %(default)s")
    parser.add_argument("--simdb", type=pathlib.Path, default=SIMDB, help="the program; default: %(default)s")
    parser.add_argument("--results", type=pathlib.Path, help="a file for all points, as JSON")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, help="such a file, in place of measuring")
    options = parser.parse_args()
    options.sets = options.sets.split(",")
    for name in options.sets:
        if name not in SETS:
            parser.error(f"there is no set {name}; the sets are {', '.join(SETS)}")
    if (options.data is None) == (options.earlier is None):
        parser.error("one of --data and --from is needed")
    return options


def pairs_of(folder):
    return next(folder.glob("pairs.tsv*"))


def by_simdb(folder, about, options):
    """What `simdb eval` measures: the counts of the set, and the points of all methods."""
    command = [options.simdb, "eval", folder / "docs.jsonl.gz", "--pairs", pairs_of(folder), "--method", "all"]
    command += ["--max-distance", str(MAX_DISTANCE), "--json"]
    for option in ("same", "different"):
        if option in about:
            command += [f"--{option}", ",".join(about[option])]
    if "html_field" in about:
        command += ["--html-field", about["html_field"]]
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        command += ["--plot", options.plots / f"{folder.name}.svg"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    counts, *points = (json.loads(line) for line in done.stdout.splitlines())
    # Times mean nothing where other programs run.
    for point in points:
        del point["describe_us"], point["pair_ns"]
    return counts, points


def by_peers(folder, about, counts):
    """The points of the peers, and the number of unrelated pairs."""
    with tempfile.TemporaryDirectory(prefix="simdb-quality-") as directory:
        path = pathlib.Path(directory) / "texts.jsonl"
        text_peers.write_visible(folder / "docs.jsonl.gz", path, about.get("html_field"))
        documents = text_peers.read_texts(path)
        if len(documents) != counts["documents"]:
            raise SystemExit(f"{folder.name}: {len(documents)} texts of {counts['documents']} documents")
        described = {
            name: subprocess.run([text_peers.RUST, "describe", name, path], stdout=subprocess.PIPE, check=True).stdout
            for name in ("gaoya-simhash-words", "gaoya-simhash-characters")
            + ("gaoya-minhash-words", "gaoya-minhash-characters")
        }
    judgements = about.get("same", []), about.get("different", [])
    measures = yardstick.Yardstick(documents, pairs_of(folder), judgements)
    simhashes = numpy.array([text_peers.simhash_of(it["text"]) for it in documents], dtype=numpy.uint64)
    points = by_distance(measures, "simhash (PyPI)", simhashes)
    points += by_datasketch(measures)
    for features in ("words", "characters"):
        simhashes = numpy.frombuffer(described[f"gaoya-simhash-{features}"], dtype="<u8")
        points += by_distance(measures, f"gaoya simhash, {features}", simhashes)
        hashes = numpy.frombuffer(described[f"gaoya-minhash-{features}"], dtype="<u4").reshape(-1, MINHASHES)
        scale = yardstick.similarities(MINHASHES)
        points += measures.measure(f"gaoya minhash, {features}", 4 * MINHASHES, scale, equal(hashes))
    return points, measures.unrelated


def by_distance(measures, name, simhashes):
    def scores(a, b):
        return -numpy.bitwise_count(simhashes[a] ^ simhashes[b]).astype(numpy.int64)

    return measures.measure(name, 8, yardstick.distances(MAX_DISTANCE), scores)


def equal(hashes):
    """Scores by the number of equal hashes."""

    def scores(a, b):
        return numpy.count_nonzero(hashes[a] == hashes[b], axis=1)

    return scores


def by_datasketch(measures):
    """The estimates of all pairs, and those of the pairs that the index of datasketch finds. There, the threshold 0
    stands for all that it finds."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=LSH_SIMILARITY, num_perm=text_peers.PERMUTATIONS)
    hashes, found = [], []
    for number, tokens in enumerate(measures.tokens):
        minhash = MinHash(num_perm=text_peers.PERMUTATIONS)
        minhash.update_batch([shingle.encode() for shingle in text_peers.shingles_of(tokens)])
        hashes.append(minhash.hashvalues)
        if tokens:
            found += [other * len(measures.tokens) + number for other in index.query(minhash)]
            index.insert(number, minhash)
    # The last one is larger than any pair, so that a place in the list is never beyond its end.
    hashes, found = numpy.array(hashes), numpy.array(sorted(found) + [len(measures.tokens) ** 2])
    estimates = equal(hashes)

    def candidates(a, b):
        codes = numpy.minimum(a, b) * len(hashes) + numpy.maximum(a, b)
        met = found[numpy.searchsorted(found, codes)] == codes
        scores = numpy.full(len(codes), -1)
        a, b = (numpy.broadcast_to(it, codes.shape)[met] for it in (a, b))
        scores[met] = estimates(a, b)
        return scores

    scale = yardstick.similarities(text_peers.PERMUTATIONS)
    looser = yardstick.Scale(scale.name, [*scale.thresholds, 0.0], [*scale.least, 0])
    size = hashes.itemsize * text_peers.PERMUTATIONS
    points = measures.measure("datasketch minhash", size, scale, estimates)
    return points + measures.measure(f"datasketch LSH {LSH_SIMILARITY}", size, looser, candidates)


def main():
    options = arguments()
    if options.earlier:
        results = json.loads(options.earlier.read_text(encoding="utf-8"))
    else:
        text_peers.build()
        results = {}
        for name in options.sets:
            folder = options.data / name
            if not folder.is_dir():
                print(f"{name} is not there", file=sys.stderr)
                continue
            print(name, file=sys.stderr, flush=True)
            counts, points = by_simdb(folder, SETS[name], options)
            more, unrelated = by_peers(folder, SETS[name], counts)
            results[name] = {"counts": counts, "peers_unrelated": unrelated, "points": points + more}
            if options.results:
                options.results.write_text(json.dumps(results) + "\n", encoding="utf-8")
    options.output.write_text(quality_tables.document(results), encoding="utf-8")


if __name__ == "__main__":
    main()
