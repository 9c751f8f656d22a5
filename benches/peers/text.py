"""Measures how fast texts become fingerprints, beside other libraries, and prints Markdown tables.

    pip install -r benches/peers/requirements.txt
    python benches/peers/text.py --passes 5

Corpora: the visible text of the bundled pages of the PostgreSQL manual and, where `--data` or SIMDB_DATA names a
folder of data sets, Chinese laws (`zh-laws`). The text is taken from the pages once, before anything is timed.
All peers get the same texts: the first ones of the corpus, up to `--bytes` of UTF-8.

Each pass of each peer runs in a process of its own, on one thread, in turn: all peers, then all again. The process
first makes all descriptions once without timing, and compares them with those of the timed pass. Reading the
texts and starting the process are left out. MB/s are 10^6 bytes of UTF-8 in a second. The table gives the median
of the passes, with the least and greatest. How each peer is used stands in `text_peers.py` and
`src/bin/text/peers.rs`.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import run
import text_peers

# The bytes that a peer keeps of a text. What gaoya in Python keeps cannot be read.
PEERS = {
    "simhash-1": ("simdb simhash-1", "8"),
    "simhash-1+sketch": ("simdb simhash-1, sketch", "28"),
    "simhash-2": ("simdb simhash-2", "8"),
    "simhash-2+sketch": ("simdb simhash-2, sketch", "28"),
    "minwise-1": ("simdb minwise-1", "8"),
    "minwise-1+sketch": ("simdb minwise-1, sketch", "28"),
    "gaoya-simhash-words": ("gaoya simhash, words", "8"),
    "gaoya-simhash-characters": ("gaoya simhash, 4 characters", "8"),
    "gaoya-minhash-words": ("gaoya minhash, words", "504"),
    "gaoya-minhash-characters": ("gaoya minhash, 4 characters", "504"),
    "simhash": ("PyPI simhash", "8"),
    "datasketch-minhash": ("datasketch minhash, shingles", "512"),
    "gaoya-python-simhash": ("gaoya in Python, simhash, words, into an index", "—"),
    "gaoya-python-minhash": ("gaoya in Python, minhash, words, into an index", "—"),
}
COMPARED = ("simhash-1", "simhash-2", "minwise-1", "minwise-1+sketch")


def arguments():
    parser = argparse.ArgumentParser(description="Measure text to fingerprint beside peers", allow_abbrev=False)
    parser.add_argument("--passes", type=int, default=5, help="how often each peer is timed; default: %(default)s")
    parser.add_argument("--bytes", type=int, default=4_000_000, help="the most of a corpus; default: %(default)s")
    parser.add_argument("--data", default=os.environ.get("SIMDB_DATA"), help="a folder of data sets")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--results", help="a file for everything that was measured, as JSON")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"there is no peer {peer}; the peers are {', '.join(PEERS)}")
    if options.passes < 1:
        parser.error("--passes must be at least 1")
    return options


def corpora(data):
    """The names of the corpora, with their documents."""
    tests = text_peers.HERE.parent.parent / "tests" / "data"
    found = {"pg-docs-html": tests / "pg-docs-html" / "docs.jsonl.gz"}
    if data:
        found["zh-laws"] = pathlib.Path(data) / "zh-laws" / "docs.jsonl.gz"
    return found


def write_corpus(documents, path, most_bytes):
    """Writes the first texts of a set, up to a number of bytes."""
    text_peers.write_visible(documents, path)
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    taken, size = [], 0
    for line in lines:
        size += len(json.loads(line)["text"].encode())
        if size > most_bytes:
            break
        taken.append(line)
    path.write_text("".join(taken), encoding="utf-8")


def timed(peer, path):
    """One pass of a peer, in a process of its own."""
    if peer in text_peers.PYTHON_PEERS:
        command = [sys.executable, str(text_peers.HERE / "text_peers.py"), "time", peer, str(path)]
    else:
        command = [str(text_peers.RUST), "time", peer, str(path)]
    one = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env={**os.environ, **one}, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{peer} failed")
    return json.loads(done.stdout)


def measured(path, options):
    """The report of each peer, with the seconds of all passes."""
    reports = {}
    for number in range(options.passes):
        for peer in options.peers:
            print(f"pass {number + 1}: {peer}", file=sys.stderr, flush=True)
            report = timed(peer, path)
            reports.setdefault(peer, {**report, "seconds": []})["seconds"] += report["seconds"]
    return reports


def table(reports):
    columns = ["peer", "bytes", "MB/s", *(f"{PEERS[own][0]} / peer" for own in COMPARED if own in reports)]
    rates = {peer: [it["bytes"] / 1e6 / second for second in it["seconds"]] for peer, it in reports.items()}
    rows = []
    for peer, passes in rates.items():
        name, size = PEERS[peer]
        median = statistics.median(passes)
        speed = f"{run.number(median)} ({run.number(min(passes))} to {run.number(max(passes))})"
        ratios = [run.ratio(statistics.median(rates[own]), median) for own in COMPARED if own in rates]
        rows.append([f"{name} {reports[peer]['version']}", size, speed, *ratios])
    return run.table(columns, rows)


def main():
    options = arguments()
    text_peers.build()
    about = run.machine()
    print(f"{about['date']}, commit {about['commit']}, {about['cpu']}; one thread, {options.passes} passes.")
    results = {"machine": about, "corpora": {}}
    with tempfile.TemporaryDirectory(prefix="simdb-text-") as directory:
        for name, documents in corpora(options.data).items():
            path = pathlib.Path(directory) / f"{name}.jsonl"
            write_corpus(documents, path, options.bytes)
            reports = measured(path, options)
            corpus = next(iter(reports.values()))
            size = f"{corpus['documents']:,} texts, {corpus['bytes'] / 1e6:.2f} MB"
            print(f"\n{name}: {size}\n\n{table(reports)}", flush=True)
            results["corpora"][name] = reports
    if options.results:
        pathlib.Path(options.results).write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
