"""Measures simdb beside other ways to find near fingerprints, and prints the comparison as Markdown tables.

    pip install -r benches/peers/requirements.txt
    python benches/peers/run.py --size 2000000 --size 10000000

It makes the data from a fixed seed. It finds the exact answers of some queries by comparing them with every
fingerprint. It builds the Rust program of this package. It runs each peer in a process of its own, one at a
time, on one thread. It removes the files it wrote at the end.

Data, all fingerprints different:
  uniform  random.
  skewed   each of the four 16-bit blocks is that of another fingerprint, drawn from the file of `--real`. So
           block values are as crowded as there. A tenth are copies of others with one to three bits flipped.
Queries, 100,000 for each distance k of `--distances`, in turn:
  near     a stored fingerprint with up to k bits flipped, which therefore matches.
  new      a fingerprint made like the data, and not stored.

A peer's answers are compared before they are timed: 400 queries up to distance 4, 100 up to distance 8, 40 beyond.
Each of `--passes` passes then times the number of queries that the peer can answer in about `--pass-seconds`. The
table gives the median of the means of the passes, with the least and greatest, and behind them the mean of the first
queries of all, before what they read is in memory. A dash stands for a value that
a peer does not have.

simdb and the plain layout make every 10,000 insertions durable. The other peers are in memory. If a peer can
save its index, the file is written after the queries, and "reopen" reads all of it. Reopening includes one
query, with the file in the memory of the system. mih-rs builds its index at once, and its rate is that of
building. The names of gaoya and mih-rs have the number of blocks of a fingerprint. Those of FAISS have the
number of blocks by their bits. gaoya fixes the distance when the index is made. simdb chooses its tables for the
distance of `--made-for`.

Hashes of pictures are as `docs/pictures.md` says:

    python benches/peers/run.py --size 1000000 --size 10000000 --distances 4,8,10,12 --made-for 8 \\
        --peers simdb,bk-tree,mih-default,faiss-flat,faiss-multihash-4x16 --data skewed --real HASHES
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20_070_508
QUERIES = 100_000
NEAR_DUPLICATES = 0.1

RUST = str(pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release" / "simdb-peers")
FAISS = (sys.executable, str(HERE / "faiss_peer.py"))
PEERS = {
    "simdb": (RUST, "simdb"),
    "plain": (RUST, "plain"),
    "mih-default": (RUST, "mih"),
    "mih-2": (RUST, "mih", "--blocks", "2"),
    "gaoya-5": (RUST, "gaoya", "--blocks", "5"),
    "gaoya-6": (RUST, "gaoya", "--blocks", "6"),
    "gaoya-k7": (RUST, "gaoya", "--blocks", "9", "--max-distance", "7"),
    "bk-tree": (RUST, "bk"),
    "faiss-flat": (*FAISS, "faiss-flat"),
    "faiss-multihash-4x16": (*FAISS, "faiss-multihash-4x16"),
    "faiss-multihash-2x32": (*FAISS, "faiss-multihash-2x32"),
}


def arguments():
    parser = argparse.ArgumentParser(description="Measure simdb beside its peers", allow_abbrev=False)
    parser.add_argument("--size", type=int, action="append", help="how many fingerprints; may be repeated")
    parser.add_argument("--data", choices=["uniform", "skewed"], default="uniform")
    parser.add_argument("--real", help="real fingerprints, 64-bit little-endian words, for --data skewed")
    parser.add_argument("--distances", default="3,7", help="comma-separated, the least first; default: %(default)s")
    parser.add_argument("--made-for", type=int, default=3, help="the distance for which simdb chooses its tables")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--directory", help="where data and databases are written; default: that of the system")
    parser.add_argument("--results", help="a file for everything that was measured, as JSON")
    parser.add_argument("--limit-seconds", type=float, default=3600.0, help="when a peer has to stop inserting")
    parser.add_argument("--passes", type=int, default=5, help="how often the queries are timed")
    parser.add_argument("--pass-seconds", type=float, default=10.0, help="about how long one pass may take")
    options = parser.parse_args()
    options.size = options.size or [2_000_000]
    options.peers = options.peers.split(",")
    options.distances = [int(distance) for distance in options.distances.split(",")]
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"there is no peer {peer}; the peers are {', '.join(PEERS)}")
    if options.data == "skewed" and not options.real:
        parser.error("--data skewed needs --real")
    if min(options.size) < 1000:
        parser.error("--size must be at least 1000")
    return options


def flipped(words, bits_per_word, rng):
    """The words, each with the given number of different random bits flipped."""
    flips = numpy.zeros(len(words), dtype=numpy.uint64)
    while (short := numpy.flatnonzero(numpy.bitwise_count(flips) < bits_per_word)).size:
        flips[short] |= numpy.uint64(1) << rng.integers(0, 64, short.size, dtype=numpy.uint64)
    return words ^ flips


def drawn(count, real, rng):
    """`count` fingerprints, uniform or with the blocks of real ones. Some may be equal."""
    if real is None:
        return rng.integers(0, 2**64, count, dtype=numpy.uint64)
    words = numpy.zeros(count, dtype=numpy.uint64)
    for shift in (0, 16, 32, 48):
        words |= real[rng.integers(0, len(real), count)] & numpy.uint64(0xFFFF << shift)
    return words


def made(size, real, rng):
    """The fingerprints to store, all different, in random order."""
    spare = size + size // 100 + 100
    words = drawn(spare, real, rng)
    if real is not None:
        copies = int(spare * NEAR_DUPLICATES)
        originals = words[rng.integers(copies, spare, copies)]
        words[:copies] = flipped(originals, rng.integers(1, 4, copies), rng)
    words = numpy.unique(words)
    rng.shuffle(words)
    if len(words) < size:
        raise SystemExit(f"only {len(words)} different fingerprints could be made")
    return words[:size]


def asked(stored, distance, real, rng):
    """The queries of a distance: one near a stored fingerprint and a new one, in turn."""
    near = flipped(rng.choice(stored, QUERIES // 2), rng.integers(0, distance + 1, QUERIES // 2), rng)
    new = drawn(2 * QUERIES, real, rng)
    new = new[~numpy.isin(new, stored)][: QUERIES // 2]
    return numpy.stack([near, new], axis=1).reshape(-1)


def compared(distance):
    """How many answers are compared. An index that compares with every fingerprint takes long for them."""
    return 400 if distance <= 4 else 100 if distance <= 8 else 40


def answered(stored, queries):
    """For each distance, the number of stored fingerprints within it of each of its first queries."""
    found = {distance: numpy.zeros(compared(distance), dtype="<u4") for distance in queries}
    # Parts that stay in the cache while all queries pass over them.
    for part in numpy.array_split(stored, -(-len(stored) // 65_536)):
        for distance, asked_for in queries.items():
            for number, query in enumerate(asked_for[: compared(distance)]):
                found[distance][number] += numpy.count_nonzero(numpy.bitwise_count(part ^ query) <= distance)
    return found


def measured(peer, files, options):
    """The report of one peer, or the reason why there is none."""
    with tempfile.TemporaryDirectory(prefix=f"{peer}-", dir=options.directory) as directory:
        command = [*PEERS[peer]]
        for name, path in {**files, "directory": directory}.items():
            command += [f"--{name}", str(path)]
        command += ["--distances", ",".join(map(str, options.distances)), "--made-for", str(options.made_for)]
        command += ["--limit-seconds", str(options.limit_seconds), "--passes", str(options.passes)]
        command += ["--pass-seconds", str(options.pass_seconds)]
        environment = {**os.environ, "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        begin = time.monotonic()
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seconds = time.monotonic() - begin
    if done.returncode == 0:
        return {**json.loads(done.stdout), "peer": peer, "whole_run_seconds": seconds}
    reason = done.stderr.strip().splitlines()[-1:] or [f"ended with code {done.returncode}"]
    return {"peer": peer, "failed": reason[0], "code": done.returncode, "whole_run_seconds": seconds}


def disagreements(reports):
    """Different numbers of matches, found by peers that were timed on the same queries."""
    found = {}
    for report in reports:
        for distance, times in ((report.get("steady") or {}).get("query_us") or {}).items():
            if times and times["exact"]:
                found.setdefault((distance, times["queries"]), {})[report["peer"]] = times["matches"]
    return [
        f"{distance}, first {queries} queries: {matches}"
        for (distance, queries), matches in found.items()
        if len(set(matches.values())) > 1
    ]


def faults_of(reports):
    """Wrong results, which must not be in any run: failed peers, different answers, misses of exact peers."""
    faults = disagreements(reports)
    for report in reports:
        if "failed" in report:
            faults.append(f"{report['peer']} failed: {report['failed']}")
        elif report["peer"] in ("simdb", "plain") and report["complete"]:
            times = report["steady"]["query_us"]
            faults += [f"{report['peer']} is not exact at {k}" for k in times if not times[k]["exact"]]
    return faults


def figures(report):
    """The figures of a report that are compared, None for a missing one. Empty if the peer did not finish."""
    if "failed" in report or not report["complete"]:
        return {}
    state = report["steady"]
    figures = {"insert": report["inserts_per_second"]}
    for distance, times in (state["query_us"] or {}).items():
        figures[distance] = times["median"] if times and times["exact"] else None
    figures["memory"] = state["memory"]["steady_bytes"]
    figures["disk"] = state["disk"] and state["disk"]["allocated_bytes"]
    figures["reopen"] = state["reopen_seconds"]
    return figures


def number(value):
    """Three significant digits, and thousands in groups."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.2g}"


def megabytes(count):
    return number(count / 1e6)


def ratio(theirs, own):
    return f"{number(theirs / own)}x" if theirs is not None and own else "—"


def times_cell(times):
    if times is None:
        return "—"
    if not times["exact"]:
        return f"inexact: recall {100 * times['recall']:.1f} %"
    passes = f"{number(times['least'])} to {number(times['greatest'])}"
    if "first" in times:
        passes += f"; the first {number(times['first'])}"
    return f"{number(times['median'])} ({passes})"


def states(report):
    """A report, and another for the compacted state if the peer was measured in it."""
    compacted = report.get("compacted")
    if not compacted:
        return [report]
    return [report, {**report, "peer": f"{report['peer']}, compacted", "steady": compacted, "inserts_per_second": None}]


def row(report, distances):
    if "failed" in report:
        return [report["peer"], f"failed: {report['failed']}", *["—"] * (len(distances) + 3)]
    state = report["steady"]
    rate = "—" if report["inserts_per_second"] is None else number(report["inserts_per_second"])
    if not report["complete"]:
        rate += f", stopped at {report['fingerprints']:,} after {number(report['build_seconds'])} s"
    queries = state["query_us"] or {}
    memory, disk, reopen = state["memory"], state["disk"], state["reopen_seconds"]
    return [
        f"{report['peer']} {report['version']}",
        rate,
        *(times_cell(queries.get(f"k{distance}")) for distance in distances),
        f"{megabytes(memory['steady_bytes'])}, {megabytes(memory['peak_bytes'])}",
        f"{megabytes(disk['bytes'])}, {megabytes(disk['allocated_bytes'])}" if disk else "—",
        f"{number(reopen)}" if reopen is not None else "—",
    ]


def table(columns, rows):
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(reports, distances):
    """The figures of each peer, and their ratios to those of simdb."""
    columns = ["peer", "inserts/s", *(f"query k = {distance}, us" for distance in distances)]
    columns += ["memory MB, steady, peak", "file MB, length, on disk", "reopen s"]
    shown = [shown for report in reports for shown in states(report)]
    text = table(columns, [row(report, distances) for report in shown])
    before = [report.get("settings", {}).get("process_bytes_before") for report in reports]
    if any(before):
        most = megabytes(max(filter(None, before)))
        text += f"\n\nOf the memory of FAISS, {most} MB are Python and its libraries."
    own = next((figures(report) for report in reports if report["peer"] == "simdb"), {})
    if not own:
        return text
    ratios = []
    for report in shown:
        theirs = figures(report)
        ratios.append([report["peer"], *(ratio(theirs.get(name), own[name]) for name in own)])
    columns = ["peer / simdb", "inserts/s", *(f"query k = {distance}" for distance in distances)]
    columns += ["memory", "on disk", "reopen"]
    return f"{text}\n\n{table(columns, ratios)}"


def git(*command):
    return subprocess.run(["git", "-C", HERE, *command], capture_output=True, text=True).stdout.strip()


def machine():
    """The machine, the date and the commit of the measurement."""
    with open("/proc/cpuinfo") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    with open("/proc/meminfo") as file:
        kibibytes = int(next(line.split()[1] for line in file if line.startswith("MemTotal")))
    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": kibibytes * 1024,
        "date": datetime.date.today().isoformat(),
        "commit": (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed,
    }


def run_size(size, options, real):
    """All peers on one set of fingerprints."""
    rng = numpy.random.default_rng([SEED, size])
    with tempfile.TemporaryDirectory(prefix="simdb-peers-", dir=options.directory) as directory:
        stored = made(size, real, rng)
        queries = {distance: asked(stored, distance, real, rng) for distance in options.distances}
        answers = answered(stored, queries)
        files = {"fingerprints": pathlib.Path(directory, "fingerprints"), "questions": directory}
        stored.astype("<u8", copy=False).tofile(files["fingerprints"])
        for distance in options.distances:
            queries[distance].astype("<u8", copy=False).tofile(pathlib.Path(directory, f"queries-{distance}"))
            answers[distance].tofile(pathlib.Path(directory, f"answers-{distance}"))
        del stored, queries, answers
        reports = []
        for peer in options.peers:
            print(f"{size:,} {options.data}: {peer}", file=sys.stderr, flush=True)
            reports.append(measured(peer, files, options))
    return reports


def main():
    options = arguments()
    subprocess.run(["cargo", "build", "--release", "--manifest-path", str(HERE / "Cargo.toml")], check=True)
    real = numpy.fromfile(options.real, dtype="<u8") if options.data == "skewed" else None
    about = machine()
    print(
        f"{about['date']}, commit {about['commit']}, {about['cpu']}, {about['cores']} cores, "
        f"{about['memory_bytes'] / 2**30:.0f} GiB of memory; one thread."
    )
    results = {"machine": about, "data": options.data, "seed": SEED, "sizes": []}
    for size in options.size:
        reports = run_size(size, options, real)
        print(f"\n{size:,} fingerprints, {options.data}:\n\n{tables(reports, options.distances)}", flush=True)
        results["sizes"].append({"fingerprints": size, "peers": reports})
        if options.results:
            pathlib.Path(options.results).write_text(json.dumps(results, indent=2) + "\n")
    faults = [fault for measured_size in results["sizes"] for fault in faults_of(measured_size["peers"])]
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
