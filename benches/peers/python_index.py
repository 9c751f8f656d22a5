"""Texts into verdicts in one process of Python: simdb beside datasketch and PyPI simhash, on the same documents.

    pip install ./src/python datasketch simhash
    python benches/peers/python_index.py --documents 2000 --passes 3

Each document has about 8 KB, is made of words of a real manual, and every fourth is a copy of an earlier one with one
word in a hundred changed. Each peer is asked of each document whether something near is there, and stores it if not.
What is found is asserted before the times are given: each copy is found. Times are those of the processor, of the whole
process, so that threads do not count for less; the median of the passes and their range. The peers take turns.

With `--rust` the same documents, and a million fingerprints, go through `src/bin/batches.rs` too, to see what Python adds:

    cargo build --release --manifest-path benches/peers/Cargo.toml --bin batches
    python benches/peers/python_index.py --rust benches/peers/target/release/batches
"""

import argparse
import gzip
import json
import random
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import datasketch
import simhash

import simdb

DATA = Path(__file__).parents[2] / "tests" / "data" / "pg-docs-html" / "docs.jsonl.gz"


def documents(count: int, length: int = 1_350) -> list[str]:
    """Texts of the words of a manual, of which every fourth is nearly one before it."""
    fingerprinter = simdb.Fingerprinter()
    with gzip.open(DATA, "rt") as lines:
        words = [word for line in lines for word in fingerprinter.text_of_html(json.loads(line)["html"]).split()]
    rng = random.Random(7)
    texts: list[str] = []
    for number in range(count):
        if number % 4 == 3:
            copied = texts[rng.randrange(number)].split()
            for place in rng.sample(range(len(copied)), len(copied) // 100):
                copied[place] = rng.choice(words)
            texts.append(" ".join(copied))
        else:
            texts.append(" ".join(rng.choice(words) for _ in range(length)))
    return texts


def by_simdb(texts: list[str]) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder, simdb.open(Path(folder) / "a.simdb") as db:
        verdicts = db.insert_many_if_new((str(number), text) for number, text in enumerate(texts))
        return [verdict.is_duplicate for verdict in verdicts]


def by_simdb_one_by_one(texts: list[str]) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder, simdb.open(Path(folder) / "a.simdb") as db:
        return [db.insert_if_new(str(number), text).is_duplicate for number, text in enumerate(texts)]


def by_datasketch(texts: list[str]) -> list[bool]:
    lsh = datasketch.MinHashLSH(threshold=0.7, num_perm=128)
    found = []
    for number, text in enumerate(texts):
        words = text.lower().split()
        made = datasketch.MinHash(num_perm=128)
        made.update_batch([" ".join(words[place : place + 4]).encode() for place in range(len(words) - 3)])
        near = lsh.query(made)
        found.append(bool(near))
        if not near:
            lsh.insert(str(number), made)
    return found


def by_simhash(texts: list[str], features: Callable[[str], str | list[str]] = str) -> list[bool]:
    """With the features of its own, sequences of four characters, or with those that are given."""
    index = simhash.SimhashIndex([], k=8)
    found = []
    for number, text in enumerate(texts):
        made = simhash.Simhash(features(text))
        near = index.get_near_dups(made)
        found.append(bool(near))
        if not near:
            index.add(str(number), made)
    return found


def by_simhash_of_words(texts: list[str]) -> list[bool]:
    return by_simhash(texts, lambda text: re.findall(r"[\w]+", text.lower()))


def beside_rust(program: Path, texts: list[str], passes: int) -> None:
    """What batches take from Python and from Rust."""
    keys = [f"https://example.org/{number}" for number in range(1_000_000)]
    bits = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1_000_000)]
    for what, given, options, scheme in [
        ("texts", [text.replace("\n", " ") for text in texts], [], None),
        ("fingerprints", bits, ["--fingerprints"], "external"),
    ]:
        times: dict[str, list[float]] = {"Python": [], "Rust": []}
        for _ in range(passes):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                with open(folder / "lines", "w") as lines:
                    for key, one in zip(keys, given):
                        lines.write(f"{key}\t{one if isinstance(one, str) else format(one, '016x')}\n")
                ran = subprocess.run(
                    [program, folder / "lines", folder / "rust.simdb", *options], capture_output=True, check=True, text=True
                )
                seconds, found = ran.stdout.split()
                times["Rust"].append(float(seconds))
                begun = time.process_time()
                with simdb.open(folder / "python.simdb", scheme=scheme) as db:
                    verdicts = db.insert_many_if_new(given, keys=keys[: len(given)])
                    duplicates = sum(verdict.is_duplicate for verdict in verdicts)
                times["Python"].append(time.process_time() - begun)
                assert duplicates == int(found)
        medians = {name: statistics.median(taken) for name, taken in times.items()}
        for name, taken in times.items():
            print(f"{what} from {name}: {medians[name]:.2f} s ({min(taken):.2f} to {max(taken):.2f})")
        print(f"{what}: Python takes {medians['Python'] / medians['Rust']:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--rust", type=Path)
    arguments = parser.parse_args()
    texts = documents(arguments.documents)
    if arguments.rust is not None:
        beside_rust(arguments.rust, texts, arguments.passes)
    peers = {
        "simdb, batches": by_simdb,
        "simdb, one by one": by_simdb_one_by_one,
        "datasketch MinHashLSH, 128 permutations": by_datasketch,
        "simhash SimhashIndex, its own features": by_simhash,
        "simhash SimhashIndex, words": by_simhash_of_words,
    }
    times: dict[str, list[float]] = {name: [] for name in peers}
    copies = [number % 4 == 3 for number in range(len(texts))]
    for _ in range(arguments.passes):
        for name, peer in peers.items():
            begun = time.process_time()
            found = peer(texts)
            times[name].append(time.process_time() - begun)
            missed = sum(copy and not is_found for copy, is_found in zip(copies, found, strict=True))
            false = sum(is_found and not copy for copy, is_found in zip(copies, found, strict=True))
            assert missed <= len(texts) // 100, f"{name} misses {missed} copies"
            print(f"{name}: {missed} copies missed, {false} others found", flush=True)
    first = statistics.median(times["simdb, batches"])
    megabytes = sum(map(len, texts)) / 1e6
    print(f"{len(texts)} documents, {megabytes:.1f} MB")
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name}: {median:.2f} s ({min(taken):.2f} to {max(taken):.2f}), {median / first:.1f}x")


if __name__ == "__main__":
    main()
