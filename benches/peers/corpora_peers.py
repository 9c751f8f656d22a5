"""The peers of `corpora.py`: the command of each, the programs of those that are libraries, and what they kept.

All are used as their documentation shows, with their own defaults, but for two processes or threads. Those of
text-dedup are its commands. Those that are Python libraries are programs here:

    python benches/peers/corpora_peers.py NAME OUTPUT INPUT INPUT

* datatrove: four stages, each by its local executor with two workers. The second has 14 tasks, one for each bucket,
  the third has one. Output is not compressed.
* rensa: `RMinHashDeduplicator` with an index, 128 hashes and the similarity 0.8. Its README gives it the words of a
  text; `rensa-shingles` gives it shingles of five words in lower case, without punctuation, such as those by which
  it is judged. It works on one thread. Its faster way, rho, is left out: it tells which documents have a near copy,
  not which to keep.
"""

import functools
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SIMDB = HERE.parent.parent / "target" / "release" / "simdb"
SIMILARITY, HASHES, BATCH = 0.8, 128, 100_000
WORD = re.compile(r"\w+")


def simdb(*options):
    def command(program, parts, output):
        return [str(program), "dedup", *map(str, parts), "-o", str(output / "clean"), "--quiet", *options]

    return command


def text_dedup(module):
    def command(_, parts, output):
        files = str(parts[0].parent / "part-*.jsonl")
        begin = [sys.executable, "-m", f"text_dedup.{module}", "--path", "json", "--data_files", files]
        begin += ["--split", "train", "--column", "text", "--num_proc", "2"]
        return [*begin, "--cache_dir", str(output / "cache"), "--output", str(output / "clean")]

    return command


def library(name):
    def command(_, parts, output):
        return [sys.executable, str(HERE / "corpora_peers.py"), name, str(output), *map(str, parts)]

    return command


PEERS = {
    "simdb": simdb(),
    "simdb-connected": simdb("--connected"),
    "simdb-0.8": simdb("--min-similarity", "0.8"),
    "text-dedup-simhash": text_dedup("simhash"),
    "text-dedup-minhash": text_dedup("minhash"),
    "datatrove-minhash": library("datatrove-minhash"),
    "rensa": library("rensa"),
    "rensa-shingles": library("rensa-shingles"),
}


def kept_ids(peer, output):
    """The ids of the documents that a peer kept."""
    import numpy
    import orjson

    if peer.startswith("text-dedup"):
        import datasets

        column = datasets.load_from_disk(str(output / "clean")).with_format("arrow")
        batches = (batch["id"] for batch in column.select_columns("id").iter(BATCH))
        return numpy.array([int(it) for batch in batches for it in batch.to_pylist()], dtype=numpy.int64)

    def ids():
        for path in sorted((output / "clean").iterdir()):
            with open(path, "rb") as file:
                for line in file:
                    yield int(orjson.loads(line)["id"])

    return numpy.fromiter(ids(), dtype=numpy.int64)


def datatrove_minhash(output, parts):
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    config = MinhashConfig()
    reader = functools.partial(JsonlReader, str(parts[0].parent), glob_pattern="part-*.jsonl")
    folders = {name: str(output / name) for name in ("signatures", "buckets", "removals", "clean")}
    writer = JsonlWriter(folders["clean"], output_filename="${rank}.jsonl", compression=None)
    signatures = MinhashDedupSignature(folders["signatures"], config=config)
    buckets = MinhashDedupBuckets(folders["signatures"], folders["buckets"], config=config)
    cluster = MinhashDedupCluster(folders["buckets"], folders["removals"], config=config)
    stages = [
        ([reader(), signatures], 2),
        ([buckets], config.num_buckets),
        ([cluster], 1),
        ([reader(), MinhashDedupFilter(folders["removals"]), writer], 2),
    ]
    for number, (pipeline, tasks) in enumerate(stages):
        logs = str(output / "logs" / str(number))
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=min(tasks, 2), logging_dir=logs).run()


def words(text):
    return text.split()


def shingles(text):
    parts = WORD.findall(text.lower())
    return [" ".join(parts[i : i + 5]) for i in range(max(1, len(parts) - 4))]


def batches(parts):
    """The lines of the files, in lists."""
    lines = []
    for part in parts:
        with open(part, "rb") as file:
            for line in file:
                lines.append(line)
                if len(lines) == BATCH:
                    yield lines
                    lines = []
    yield lines


def by_rensa(tokens, output, parts):
    import orjson
    import rensa

    dedup = rensa.RMinHashDeduplicator(threshold=SIMILARITY, num_perm=HASHES, use_lsh=True)
    with open(output / "clean" / "kept.jsonl", "wb") as out:
        for lines in batches(parts):
            documents = map(orjson.loads, lines)
            keep = dedup.add_pairs((it["id"], tokens(it["text"])) for it in documents)
            out.writelines(line for line, kept in zip(lines, keep) if kept)


PROGRAMS = {
    "datatrove-minhash": datatrove_minhash,
    "rensa": functools.partial(by_rensa, words),
    "rensa-shingles": functools.partial(by_rensa, shingles),
}


def main():
    name, output, *parts = sys.argv[1:]
    PROGRAMS[name](pathlib.Path(output), [pathlib.Path(part) for part in parts])


if __name__ == "__main__":
    main()
