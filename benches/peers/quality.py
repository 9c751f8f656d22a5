"""Measures how good fingerprints are on labelled documents, beside other libraries, and writes Markdown tables.

    pip install -r benches/peers/requirements.txt -r benches/peers/requirements-today.txt
    cargo install incrededup --version 0.3.1 --locked
    cargo build --release --features cli
    python benches/peers/quality.py --data FOLDER --output quality.md --plots plots

FOLDER holds the labelled sets: `SET/docs.jsonl.gz` and `SET/pairs.tsv`, or `SET/pairs.tsv.gz`. Those that are not
there are left out. For each set it runs `simdb eval --method all`, and then the peers on the same texts and pairs,
with the same yardstick (`yardstick.py`). The peers and how they are used stand in `text_peers.py`, `quality_stores.py`
and `src/bin/text/peers.rs`. It measures no times. `--results` keeps all points as JSON, and `--from` writes the tables
from such a file again.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

import quality_stores
import quality_tables
import text_peers
import yardstick

SIMDB = text_peers.HERE.parent.parent / "target" / "release" / "simdb"
MAX_DISTANCE = 24
MINHASHES = 42 * 3
LSH_SIMILARITY = 0.7
GAOYA = [f"gaoya-{kind}-{features}" for kind in ("simhash", "minhash") for features in ("words", "characters")]

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
    parser.add_argument("--method", default="all", help="what simdb eval measures; default: %(default)s")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--results", type=pathlib.Path, help="a file for all points, as JSON")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, help="such a file, in place of measuring")
    options = parser.parse_args()
    options.sets = options.sets.split(",")
    options.peers = options.peers.split(",")
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"there is no peer {name}; the peers are {', '.join(PEERS)}")
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
    command = [options.simdb, "eval", folder / "docs.jsonl.gz", "--pairs", pairs_of(folder)]
    command += ["--method", options.method, "--max-distance", str(MAX_DISTANCE), "--json"]
    for option in ("same", "different"):
        if option in about:
            command += [f"--{option}", ",".join(about[option])]
    if "html_field" in about:
        command += ["--html-field", about["html_field"]]
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        command += ["--plot", options.plots / f"{folder.name}.svg", "--replace"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    counts, *points = (json.loads(line) for line in done.stdout.splitlines())
    # Times mean nothing where other programs run.
    for point in points:
        del point["describe_us"], point["pair_ns"]
    return counts, points


def by_peers(folder, about, counts, options):
    """The points of the peers, and the number of unrelated pairs."""
    described = {}
    with tempfile.TemporaryDirectory(prefix="simdb-quality-") as directory:
        path = pathlib.Path(directory) / "texts.jsonl"
        text_peers.write_visible(folder / "docs.jsonl.gz", path, about.get("html_field"))
        documents = text_peers.read_texts(path)
        if len(documents) != counts["documents"]:
            raise SystemExit(f"{folder.name}: {len(documents)} texts of {counts['documents']} documents")
        for name in GAOYA if "gaoya" in options.peers else []:
            command = [text_peers.RUST, "describe", name, path]
            described[name] = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    judgements = about.get("same", []), about.get("different", [])
    measures = yardstick.Yardstick(documents, pairs_of(folder), judgements)
    texts = [it["text"] for it in documents]
    points = []
    for peer in options.peers:
        points += PEERS[peer](measures, texts, described)
    return points, measures.unrelated


def by_simhash(measures, texts):
    simhashes = numpy.array([text_peers.simhash_of(it) for it in texts], dtype=numpy.uint64)
    return by_distance(measures, "simhash (PyPI)", simhashes)


def by_gaoya(measures, described):
    points = []
    for features in ("words", "characters"):
        simhashes = numpy.frombuffer(described[f"gaoya-simhash-{features}"], dtype="<u8")
        points += by_distance(measures, f"gaoya simhash, {features}", simhashes)
        hashes = numpy.frombuffer(described[f"gaoya-minhash-{features}"], dtype="<u4").reshape(-1, MINHASHES)
        scale = yardstick.similarities(MINHASHES)
        points += measures.measure(f"gaoya minhash, {features}", 4 * MINHASHES, scale, equal(hashes))
    return points


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
            for other in index.query(minhash):
                found.append((other, number, numpy.count_nonzero(hashes[other] == hashes[number])))
            index.insert(number, minhash)
    hashes = numpy.array(hashes)
    size = hashes.itemsize * text_peers.PERMUTATIONS
    scale = yardstick.similarities(text_peers.PERMUTATIONS)
    points = measures.measure("datasketch minhash", size, scale, equal(hashes))
    candidates = quality_stores.of_found(len(hashes), found)
    measured = measures.measure(f"datasketch LSH {LSH_SIMILARITY}", size, quality_stores.scale(), candidates)
    return points + quality_stores.with_estimates(measured, measures, equal(hashes), candidates)


PEERS = {
    "simhash": lambda measures, texts, described: by_simhash(measures, texts),
    "datasketch": lambda measures, texts, described: by_datasketch(measures),
    "gaoya": lambda measures, texts, described: by_gaoya(measures, described),
    "rensa": lambda measures, texts, described: quality_stores.by_rensa(measures),
    "lance": lambda measures, texts, described: quality_stores.by_lance(measures, texts),
    "incrededup": lambda measures, texts, described: quality_stores.by_incrededup(measures, texts),
}


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
            more, unrelated = by_peers(folder, SETS[name], counts, options)
            results[name] = {"counts": counts, "peers_unrelated": unrelated, "points": points + more}
            if options.results:
                options.results.write_text(json.dumps(results) + "\n", encoding="utf-8")
    options.output.write_text(quality_tables.document(results), encoding="utf-8")


if __name__ == "__main__":
    main()
