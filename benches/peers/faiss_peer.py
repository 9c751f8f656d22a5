"""Runs one FAISS index as the Rust program runs its peers. It has the same arguments, and prints the same
JSON object.

FAISS gets the queries of a pass in one call, so they do not pay for Python. Its range search excludes the
radius itself, hence `max_distance + 1`. IndexBinaryMultiHash is told before each search the number of bits
per block to flip. It gets the fewest flips that make an answer exact. By the pigeonhole principle these are
distance // blocks.
"""

import argparse
import json
import os
import pathlib
import time

import faiss
import numpy

BATCH = 10_000
REOPENINGS = 3

INDEXES = {
    "faiss-flat": lambda: faiss.IndexBinaryFlat(64),
    "faiss-multihash-4x16": lambda: faiss.IndexBinaryMultiHash(64, 4, 16),
    "faiss-multihash-2x32": lambda: faiss.IndexBinaryMultiHash(64, 2, 32),
}


def arguments():
    parser = argparse.ArgumentParser(description="Measure one index of FAISS")
    parser.add_argument("peer", choices=INDEXES)
    for name in ("fingerprints", "questions", "directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--distances", default="3,7")
    parser.add_argument("--made-for", help="of no use here: an index is made for any distance")
    parser.add_argument("--limit-seconds", type=float, default=3600.0)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--pass-seconds", type=float, default=10.0)
    return parser.parse_args()


def codes(words):
    """Words as FAISS takes them: one row of eight bytes each."""
    return words.view(numpy.uint8).reshape(-1, 8)


def counts(index, queries, max_distance):
    """The number of stored fingerprints within `max_distance` of each query."""
    if isinstance(index, faiss.IndexBinaryMultiHash):
        index.nflip = max_distance // index.nhash
    limits, _, _ = index.range_search(codes(queries), max_distance + 1)
    return numpy.diff(limits.astype(numpy.int64))


def inserted(index, path, limit_seconds):
    """Adds the words of a file in batches. Returns the seconds, and whether all were added in time."""
    begin = time.perf_counter()
    with open(path, "rb") as file:
        while batch := file.read(8 * BATCH):
            if time.perf_counter() - begin > limit_seconds:
                return time.perf_counter() - begin, False
            index.add(codes(numpy.frombuffer(batch, dtype="<u8")))
    return time.perf_counter() - begin, True


def query(index, queries, answers, max_distance, options):
    """Compares the answers with the known ones, and times the queries if they agree."""
    begin = time.perf_counter()
    found = counts(index, queries[: len(answers)], max_distance)
    per_query = (time.perf_counter() - begin) / len(answers)
    if not numpy.array_equal(found, answers):
        recall = float(numpy.minimum(found, answers).sum() / answers.sum())
        return {"exact": False, "compared": len(answers), "recall": recall}
    affordable = int(options.pass_seconds / per_query)
    queries = queries[: min(max(affordable, 10), len(queries))]
    microseconds = []
    for _ in range(max(options.passes, 1)):
        begin = time.perf_counter()
        matches = int(counts(index, queries, max_distance).sum())
        microseconds.append((time.perf_counter() - begin) * 1e6 / len(queries))
    microseconds.sort()
    return {
        "exact": True,
        "compared": len(answers),
        "queries": len(queries),
        "passes": len(microseconds),
        "matches": matches,
        "median": microseconds[len(microseconds) // 2],
        "least": microseconds[0],
        "greatest": microseconds[-1],
    }


def memory():
    """The memory of this process, now and at its peak."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    now, peak = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return {"steady_bytes": now, "peak_bytes": peak}


def reopened(path, queries, answers, max_distance):
    """The median time to read a saved index and answer one query."""
    seconds = []
    for _ in range(REOPENINGS):
        begin = time.perf_counter()
        index = faiss.read_index_binary(path)
        found = counts(index, queries[:1], max_distance)
        seconds.append(time.perf_counter() - begin)
        if found[0] != answers[0]:
            raise SystemExit("what was opened again answers differently")
    return sorted(seconds)[REOPENINGS // 2]


def main():
    options = arguments()
    faiss.omp_set_num_threads(1)
    base = memory()["steady_bytes"]
    index = INDEXES[options.peer]()
    seconds, complete = inserted(index, options.fingerprints, options.limit_seconds)
    distances = [int(distance) for distance in options.distances.split(",")]
    folder = pathlib.Path(options.questions)
    queries = {k: numpy.fromfile(folder / f"queries-{k}", dtype="<u8") for k in distances}
    answers = {k: numpy.fromfile(folder / f"answers-{k}", dtype="<u4") for k in distances}
    state = {"query_us": None, "memory": None, "disk": None, "reopen_seconds": None}
    if complete:
        state["query_us"] = {f"k{k}": query(index, queries[k], answers[k], k, options) for k in answers}
    state["memory"] = memory()
    fingerprints = index.ntotal
    if complete:
        path = os.path.join(options.directory, "peer.faiss")
        faiss.write_index_binary(index, path)
        del index
        status = os.stat(path)
        state["disk"] = {"bytes": status.st_size, "allocated_bytes": status.st_blocks * 512}
        state["reopen_seconds"] = reopened(path, queries[distances[0]], answers[distances[0]], distances[0])
    report = {
        "peer": options.peer,
        "version": faiss.__version__,
        "settings": {"process_bytes_before": base},
        "threads": 1,
        "fingerprints": fingerprints,
        "complete": complete,
        "build_seconds": seconds,
        "inserts_per_second": fingerprints / seconds,
        "steady": state,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
