"""Indexes that take documents and say at once whether one is near, side by side, and prints Markdown tables.

    pip install -r benches/peers/requirements.txt -r benches/peers/requirements-today.txt ./src/python
    cargo install incrededup --version 0.3.1 --locked
    cargo build --release --manifest-path benches/peers/Cargo.toml --bin sketchir
    python benches/peers/today.py
    python benches/peers/today_kills.py

The peers, and how each is used, stand in `today_peers.py`. Each is a process of its own, one at a time, on the two
processors that all of them are bound to; the peers take turns, `--passes` times. All get the same documents: those of
`python_index.py`, of `--words` words, every fourth a copy of an earlier one with one word in a hundred changed. Every
document is stored. The last `--one` are given one at a time, all others before in batches of `--batch`; the answer to
each document, or each batch, is waited for. Then a tenth is deleted.

Times are by the clock, and of the processor for all threads and processes of a peer. Each is the median of the passes,
with the least and greatest. Memory is the greatest of the process, less what it took before the first document. For
incrededup it is the greatest of its runs. Bytes are those that the files take on the disk, for all files and for the
index alone, before and after what the peer has to free space: `compact` of simdb and sketchir, compaction, an update of
the index and the removal of old versions of Lance, `VACUUM` of the database of incrededup.

At most one copy in a hundred may be missed, or it is an error, and so is a document that is not found by its own text
before it is deleted.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import today_peers
from python_index import documents
from run import machine, number, table

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "today_peers.py"
COPY_EVERY = 4
DELETED_EVERY = 10


def arguments():
    parser = argparse.ArgumentParser(description="Indexes of documents side by side", allow_abbrev=False)
    parser.add_argument("--documents", type=int, default=4_000)
    parser.add_argument("--words", type=int, default=1_350, help="of a document; default: %(default)s, about 8 KB")
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--one", type=int, default=200, help="documents that are given one at a time")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--peers", default=",".join(today_peers.PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--directory", help="where all is written; default: that of the system")
    parser.add_argument("--results", type=pathlib.Path, help="a file for everything that was measured, as JSON")
    parser.add_argument("--limit", type=float, default=1_800.0, help="seconds that a pass of a peer may take")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    for peer in options.peers:
        if peer not in today_peers.PEERS:
            parser.error(f"there is no peer {peer}; the peers are {', '.join(today_peers.PEERS)}")
    return options


def write_texts(options, path):
    texts = documents(options.documents, options.words)
    path.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
    return texts


def to_delete(texts):
    """A tenth of the documents. The first ones have no copy, so that nobody else is found in their place."""
    beginnings = [text.split(maxsplit=20)[:20] for text in texts]
    copied = set()
    for copy in range(COPY_EVERY - 1, len(texts), COPY_EVERY):
        alike = (it for it in range(copy) if sum(map(str.__eq__, beginnings[it], beginnings[copy])) > 10)
        copied |= {copy, *alike}
    some = list(range(0, len(texts), DELETED_EVERY))
    return [it for it in some if it not in copied] + [it for it in some if it in copied]


def version(peer):
    if peer == "incrededup":
        said = subprocess.run([today_peers.INCREDEDUP, "--version"], stdout=subprocess.PIPE, text=True, check=True)
        return said.stdout.split()[-1]
    if peer == "sketchir":
        manifest = (HERE / "Cargo.toml").read_text()
        return manifest.split('sketchir = { version = "=')[1].split('"')[0]
    return importlib.metadata.version({"lance": "pylance"}.get(peer, peer))


def run_once(peer, texts, gone, options):
    with tempfile.TemporaryDirectory(prefix=f"today-{peer}-", dir=options.directory) as folder:
        command = [sys.executable, PEERS, "measure", peer, folder, texts, "--batch", str(options.batch)]
        command += ["--one", str(options.one), "--delete", ",".join(map(str, gone))]
        two = {"RAYON_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            command, env={**os.environ, **two}, stdout=subprocess.PIPE, text=True, timeout=options.limit
        )
    if done.returncode:
        raise SystemExit(f"{peer} failed")
    report = json.loads(done.stdout.splitlines()[-1])
    copies = [it % COPY_EVERY == COPY_EVERY - 1 for it in range(options.documents)]
    near = report.pop("near")
    report["missed"] = sum(copy and not it for copy, it in zip(copies, near, strict=True))
    report["others"] = sum(it and not copy for copy, it in zip(copies, near, strict=True))
    if report["missed"] > options.documents // 100:
        raise SystemExit(f"{peer} misses {report['missed']} copies")
    if report["found"] != 20:
        raise SystemExit(f"{peer} finds {report['found']} of 20 documents by their own texts")
    return report


def spread(values):
    median = statistics.median(values)
    return f"{number(median)} ({number(min(values))} to {number(max(values))})"


def times_table(reports, options):
    columns = ["peer", "documents/s in batches", "us of processor a document", "documents/s one at a time"]
    columns += ["us of processor", "memory MB", "copies missed", "others found"]
    rows = []
    for peer, passes in reports.items():
        row = [f"{peer} {version(peer)}"]
        for kind in ("together", "one"):
            row.append(spread([it[kind] / it[f"{kind}_seconds"] for it in passes]))
            row.append(spread([1e6 * it[f"{kind}_processor_seconds"] / it[kind] for it in passes]))
        row.append(number(statistics.median(it["peak_bytes"] - it["before_bytes"] for it in passes) / 1e6))
        rows.append([*row, *(str(passes[0][name]) for name in ("missed", "others"))])
    return table(columns, rows)


def ratios_table(reports):
    own = reports["simdb"]
    rows = []
    for peer, passes in reports.items():
        row = [peer]
        for kind in ("together", "one"):
            for name in (f"{kind}_seconds", f"{kind}_processor_seconds"):
                mine, theirs = (statistics.median(it[name] for it in some) for some in (own, passes))
                row.append(f"{number(theirs / mine)}x")
        rows.append(row)
    return table(["peer / simdb", "time in batches", "of processor", "time one at a time", "of processor"], rows)


def space_table(reports, options):
    columns = ["peer", "bytes a document, all files", "after freeing", "index alone", "after freeing"]
    columns += ["a tenth deleted, s", "still found", "after freeing", "all files after deletion", "and freeing"]
    rows = []
    for peer, passes in reports.items():
        last = passes[-1]
        row = [peer]
        if last["sizes"][0] is None:
            row += ["—"] * 4
        else:
            per = [[number(it / options.documents) for it in sizes] for sizes in last["sizes"]]
            row += [per[0][0], per[1][0], per[0][1], per[1][1]]
        row.append(spread([it["delete_seconds"] for it in passes]))
        row += [f"{last['still_found']} of 20", f"{last['still_found_settled']} of 20"]
        row += ["—"] * 2 if last["sizes"][0] is None else [per[2][0], per[3][0]]
        rows.append(row)
    return table(columns, rows)


def main():
    options = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    about = machine()
    print(f"{about['date']}, commit {about['commit']}, {about['cpu']}, two cores.\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="simdb-today-", dir=options.directory) as directory:
        path = pathlib.Path(directory) / "texts.jsonl"
        texts = write_texts(options, path)
        gone = to_delete(texts)
        size = path.stat().st_size / 1e6
        del texts
        reports = {peer: [] for peer in options.peers}
        for turn in range(options.passes):
            for peer in options.peers:
                print(f"pass {turn + 1}: {peer}", file=sys.stderr, flush=True)
                reports[peer].append(run_once(peer, path, gone, options))
                if options.results:
                    options.results.write_text(json.dumps({"machine": about, "peers": reports}, indent=2) + "\n")
    print(f"{options.documents:,} documents, {number(size)} MB, {options.passes} passes:\n")
    print(times_table(reports, options))
    if "simdb" in reports:
        print(f"\n{ratios_table(reports)}")
    print(f"\n{space_table(reports, options)}")


if __name__ == "__main__":
    main()
