"""Finds all pairs of near fingerprints with simdb and with other programs, and prints the times as a Markdown table.

    pip install -r benches/peers/requirements.txt
    cargo build --release --features cli
    python benches/peers/pairs.py --real tests/data/fp-real/fp.u64le
    python benches/peers/pairs.py --size 10000000

Without `--size`, the data are the different fingerprints of the file of `--real`: 64-bit little-endian words. With it,
they are that many random ones, of which a tenth are copies of others with one to three bits flipped.

  simdb         `simdb pairs` of a database that `simdb load` has made. The time is that of the whole process, which
                writes the pairs with their keys to a file. Once on one core, and once on all.
  simhash-cpp   `find_all` of simhash-cpp, with 4, 5, 6 or 7 blocks. Its sources are those of the package simhash-py
                0.4.0, from which pip downloads them; a C++ compiler is needed. The time is that of the call alone, which
                takes a set in memory and returns one. It uses one core.
  faiss         range search of each fingerprint among all, by IndexBinaryMultiHash with 4 blocks of 16 bits. The time is
                that of the searches alone. FAISS uses all cores.

The pairs of all peers are compared with each other. If they are not the same, that is an error.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy

from faiss_peer import codes
from run import flipped, machine, number, table

HERE = pathlib.Path(__file__).resolve().parent
SIMDB = HERE.parent.parent / "target" / "release" / "simdb"
BLOCKS = (4, 5, 6, 7)
PLANTED = 0.1


def arguments():
    parser = argparse.ArgumentParser(description="All pairs with simdb and with its peers", allow_abbrev=False)
    parser.add_argument("--size", type=int, help="how many random fingerprints; default: those of --real")
    parser.add_argument("--real", type=pathlib.Path, help="real fingerprints, 64-bit little-endian words")
    parser.add_argument("--max-distance", type=int, default=3)
    parser.add_argument("--blocks", default=",".join(map(str, BLOCKS)), help="of simhash-cpp; default: %(default)s")
    parser.add_argument("--simdb", type=pathlib.Path, default=SIMDB, help="the program; default: %(default)s")
    parser.add_argument("--without-faiss", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that a run may take; default: %(default)s")
    parser.add_argument("--directory", help="where all is written; default: that of the system")
    options = parser.parse_args()
    if (options.size is None) == (options.real is None):
        parser.error("give one of --size and --real")
    return options


def fingerprints(options):
    """The different fingerprints to compare, in random order."""
    rng = numpy.random.default_rng([20_070_508, options.size or 0])
    if options.real:
        words = numpy.unique(numpy.fromfile(options.real, dtype="<u8"))
    else:
        words = rng.integers(0, 2**64, options.size, dtype=numpy.uint64)
        copies = int(options.size * PLANTED)
        originals = words[rng.integers(copies, options.size, copies)]
        words[:copies] = flipped(originals, rng.integers(1, 4, copies), rng)
        words = numpy.unique(words)
    rng.shuffle(words)
    return words


def as_set(a, b):
    """Pairs in one form, to be compared: the lesser first, in order."""
    pairs = numpy.stack([numpy.minimum(a, b), numpy.maximum(a, b)], axis=1)
    pairs = pairs[numpy.lexsort((pairs[:, 1], pairs[:, 0]))]
    if (pairs[1:] == pairs[:-1]).all(axis=1).any():
        raise SystemExit("a pair was given twice")
    return pairs


def timed(command, options, **more):
    """The seconds of a command, and what it printed. `None` after the limit."""
    begin = time.monotonic()
    try:
        ran = subprocess.run(command, check=True, timeout=options.limit, **more)
    except subprocess.TimeoutExpired:
        return None
    return time.monotonic() - begin, ran.stdout


def load(words, folder, options):
    """Makes the database."""
    database, dump = folder / "d.simdb", folder / "d.jsonl"
    with open(dump, "w") as file:
        file.write(
            '{"simdb_dump":2,"scheme":"external","max_distance":3,"sketch_bytes":0,"min_similarity":0,"created":1,'
            f'"documents":{len(words)}}}\n'
        )
        # The key is the number of the fingerprint.
        for index, word in enumerate(words.tolist()):
            file.write(f'{{"key":"{index}","fingerprint":"{word:016x}","seen":1}}\n')
    subprocess.run([options.simdb, "load", database, dump], check=True, stdout=subprocess.DEVNULL)
    dump.unlink()
    return database


def simdb(database, cores, words, folder, options):
    """Yields a pair of seconds and pairs for each run."""
    found = folder / "pairs.tsv"
    command = [options.simdb, "pairs", database, "--groups", "--max-distance", str(options.max_distance)]
    for _ in range(options.runs):
        with open(found, "wb") as file:
            ran = timed(command, options, stdout=file, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if ran is None:
            return
        numbers = numpy.loadtxt(found, dtype=numpy.int64, usecols=(1, 2), ndmin=2)
        yield ran[0], as_set(words[numbers[:, 0]], words[numbers[:, 1]])


def compiled(folder):
    """Downloads the sources of simhash-cpp and compiles them with the driver."""
    package = ["simhash-py==0.4.0", "--no-deps", "--no-binary", ":all:", "--dest", folder]
    # Only the sources are wanted: what pip makes of them to find the name of the package may need old tools.
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *package], check=True)
    with tarfile.open(folder / "simhash-py-0.4.0.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    sources = folder / "simhash-py-0.4.0" / "simhash" / "simhash-cpp"
    program = folder / "pairs_simhash_cpp"
    files = [*sources.glob("src/*.cpp"), HERE / "pairs_simhash_cpp.cpp"]
    flags = ["-std=c++11", "-O3", "-DNDEBUG", f"-I{sources / 'include'}"]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, *files, "-o", program], check=True)
    return program


def simhash_cpp(blocks, program, words, folder, options):
    input_file, found = folder / "words", folder / "pairs"
    words.tofile(input_file)
    for _ in range(options.runs):
        command = [program, input_file, str(blocks), str(options.max_distance), found]
        ran = timed(command, options, stdout=subprocess.PIPE)
        if ran is None:
            return
        pairs = numpy.fromfile(found, dtype=numpy.uint64).reshape(-1, 2)
        yield float(ran[1]), as_set(pairs[:, 0], pairs[:, 1])


def faiss_multihash(words, options):
    import faiss

    index = faiss.IndexBinaryMultiHash(64, 4, 16)
    index.nflip = options.max_distance // 4
    index.add(codes(words))
    for _ in range(options.runs):
        begin = time.monotonic()
        # Its radius is exclusive.
        limits, _, labels = index.range_search(codes(words), options.max_distance + 1)
        seconds = time.monotonic() - begin
        queries = numpy.repeat(numpy.arange(len(words)), numpy.diff(limits.astype(numpy.int64)))
        # Each fingerprint finds itself, and each pair is found from both sides.
        once = queries < labels
        yield seconds, as_set(words[queries[once]], words[labels[once]])


def main():
    options = arguments()
    about = machine()
    print(f"{about['date']}, commit {about['commit']}, {about['cpu']}, {about['cores']} cores.\n", flush=True)
    words = fingerprints(options)
    rows, pairs, own = [], None, None
    with tempfile.TemporaryDirectory(prefix="simdb-pairs-", dir=options.directory) as folder:
        folder = pathlib.Path(folder)
        program = compiled(folder)
        database, cores = load(words, folder, options), sorted(os.sched_getaffinity(0))
        peers = {
            f"simdb, {len(some)} core{'s' * (len(some) > 1)}": lambda some=some: simdb(
                database, some, words, folder, options
            )
            for some in (cores, cores[:1])
        }
        for blocks in map(int, options.blocks.split(",")):
            name = f"simhash-cpp, {blocks} blocks"
            peers[name] = lambda blocks=blocks: simhash_cpp(blocks, program, words, folder, options)
        if not options.without_faiss:
            peers["faiss"] = lambda: faiss_multihash(words, options)
        for name, run in peers.items():
            seconds = []
            for took, found in run():
                seconds.append(took)
                pairs = found if pairs is None else pairs
                if not numpy.array_equal(found, pairs):
                    raise SystemExit(f"{name} finds other pairs: {len(found)} instead of {len(pairs)}")
            print(f"{name}: {seconds}", file=sys.stderr, flush=True)
            if not seconds:
                rows.append([name, f"more than {number(options.limit)}", "—"])
                continue
            median = statistics.median(seconds)
            own = own or median
            shown = f"{number(median)} ({number(min(seconds))} to {number(max(seconds))})"
            rows.append([name, shown, f"{number(median / own)}x"])
    print(f"{len(words):,} fingerprints, {len(pairs):,} pairs within {options.max_distance}:\n")
    print(table(["peer", "seconds", "beside simdb"], rows))


if __name__ == "__main__":
    main()
