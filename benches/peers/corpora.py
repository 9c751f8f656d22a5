"""Cleans whole corpora with simdb and with other programs, and prints what each needed and found as Markdown tables.

    pip install -r benches/peers/requirements-corpora.txt
    cargo build --release --features cli
    python benches/peers/corpora_data.py --from FOLDER --output corpus.jsonl
    python benches/peers/corpora.py --corpus corpus.jsonl --documents 100000
    python benches/peers/corpora.py --corpus corpus.jsonl --made 10000000

The corpus is a file of JSON lines with the field `text`. `--documents` takes an even sample of it. `--made` makes
documents of 100 words from its texts instead, of which a share of 0.3 are copies with a few words changed
(`corpora_data.py`). Documents of less than 20 words are left out, because the peers treat them differently.

Each peer is a process of its own, one at a time, on the two processors that all of them are bound to. The names of the
peers, and how each is called, stand in `corpora_peers.py`. A peer reads two files of JSON lines, and writes the
documents that it keeps in the form that it has. What is measured:

  seconds    of the whole process, with its start and all that it writes: the median of `--runs` runs, with the least
             and greatest. A peer is not run again once its runs took ten minutes. Before each run the corpus is read,
             so that it is in the memory of the system, and what is not yet on the disk is written to it.
  peak       memory of all processes of the peer at one time, as the system counts it: their own pages and their part
             of shared ones (Pss_Anon and Pss_Shmem). Pages of files are not counted. It is sampled about once a
             second, so that a short peak can be missed.
  removed    documents of the corpus that are not in the output.

A peer is stopped after `--limit` seconds, with more memory than `--memory` GB, or when the disk has less than
`--disk` GB left.

What it removed is judged by exact Jaccard similarity of sets of shingles, five words in a row, at 0.8 and at 0.7:

  precision  of the removed documents, those that are near another document of the corpus. In brackets: that are near
             one that was kept. The difference was removed by a chain of near documents whose ends are not near.
  recall     of the documents to remove, those that were. To remove are the rightly removed ones, and those that an
             exact cleaning of what the peer kept still finds: it goes through the documents in their order and
             removes each that is near one it kept.

So it does not matter which document of a group a peer keeps. The exact pairs are found by a join (`corpora_truth.py`)
over all documents, the made ones too, and are compared with brute force over some documents in each run. Of made
documents, a second table tells how many pairs of a copy and its source lost one of the two or both.

The lines that simdb writes must be lines of the input, byte for byte, and no peer may keep a document twice.
"""

import argparse
import json
import mmap
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import corpora_data
from corpora_data import Corpus, Made
from corpora_peers import PEERS, SIMDB, kept_ids
from corpora_truth import LEVELS, Truth
from run import machine, number, table


LONG_SECONDS = 600
RATES = range(len(corpora_data.RATES))


def arguments():
    parser = argparse.ArgumentParser(description="Clean corpora with simdb and its peers", allow_abbrev=False)
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="a file of JSON lines with texts")
    parser.add_argument("--documents", type=int, help="how many of its documents are taken; default: all")
    parser.add_argument("--made", type=int, help="how many documents are made of its texts, to take in their place")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--simdb", type=pathlib.Path, default=SIMDB, help="the program; default: %(default)s")
    parser.add_argument("--directory", help="where all is written; default: that of the system")
    parser.add_argument("--results", type=pathlib.Path, help="a file for everything that was measured, as JSON")
    parser.add_argument("--runs", type=int, default=3, help="how often a peer is run; default: %(default)s")
    parser.add_argument("--limit", type=float, default=7200.0, help="seconds a peer may take; default: %(default)s")
    parser.add_argument("--memory", type=float, default=20.0, help="GB it may take; default: %(default)s")
    parser.add_argument("--disk", type=float, default=3.0, help="GB that must stay free; default: %(default)s")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"there is no peer {peer}; the peers are {', '.join(PEERS)}")
    if options.made and options.documents:
        parser.error("--made and --documents cannot be together")
    return options


def memory_of(session):
    """The bytes of memory of all processes of a session."""
    kibibytes = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[3]) != session:
                    continue
            with open(f"/proc/{entry}/smaps_rollup") as file:
                lines = (line.split() for line in file)
                kibibytes += sum(int(it[1]) for it in lines if it[0] in ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
        except (OSError, IndexError):
            continue
    return 1024 * kibibytes


def watched(command, folder, options):
    """Runs a command to its end or a limit: its seconds, its peak memory, and why it failed if it did."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "RAYON_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    environment |= {"TMPDIR": str(folder)}
    peak, reason = 0, None
    with open(folder / "messages.txt", "wb") as messages:
        begin = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=messages, stderr=messages, start_new_session=True
        )
        pause = 0.2
        while reason is None:
            try:
                process.wait(pause)
                break
            except subprocess.TimeoutExpired:
                pass
            sampled = time.monotonic()
            peak = max(peak, memory_of(process.pid))
            # To look at large processes takes time of theirs, so it is done less often.
            pause = max(0.2, 50 * (time.monotonic() - sampled))
            if time.monotonic() - begin > options.limit:
                reason = f"more than {number(options.limit)} s"
            elif peak > options.memory * 1e9:
                reason = f"more than {number(options.memory)} GB of memory"
            elif shutil.disk_usage(folder).free < options.disk * 1e9:
                reason = "more than the disk holds"
        seconds = time.monotonic() - begin
        if reason:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        elif process.returncode:
            reason = f"ended with code {process.returncode}"
    if reason:
        end = (folder / "messages.txt").read_text(errors="replace").strip().splitlines()[-5:]
        print("\n".join([reason, *end]), file=sys.stderr)
    return {"seconds": seconds, "peak_bytes": peak, "failed": reason}


def demand_lines_of_input(corpus, clean):
    """Every line of the files must be a line of the corpus."""
    files = [open(part, "rb") for part in corpus.parts]
    parts = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
    for path in clean.iterdir():
        with open(path, "rb") as file:
            for line in file:
                part, begin, end = corpus.spans(int(json.loads(line)["id"]))
                if parts[part][begin:end] != line:
                    raise SystemExit(f"{path} has a line that the corpus does not have: {line[:80]}")


def measured(peer, corpus, truth, options):
    """The report of one peer, and which documents it removed in its last run, None if it did not finish."""
    runs, removed = [], None
    while len(runs) < options.runs and sum(it["seconds"] for it in runs) < LONG_SECONDS:
        report, removed = run_once(peer, corpus, options)
        runs.append(report)
        if report["failed"]:
            return report, None
    seconds = sorted(it["seconds"] for it in runs)
    report = {"peer": peer, "failed": None, "runs": runs, "seconds": statistics.median(seconds)}
    report |= {"least": seconds[0], "greatest": seconds[-1], "peak_bytes": max(it["peak_bytes"] for it in runs)}
    report["removed"] = int(numpy.count_nonzero(removed))
    report["judged"] = {str(level): truth.judge(removed, level) for level in LEVELS}
    return report, removed


def run_once(peer, corpus, options):
    """What one run of a peer took, and which documents it removed."""
    for part in corpus.parts:
        corpora_data.count_lines(part)
    os.sync()
    with tempfile.TemporaryDirectory(prefix=f"{peer}-", dir=options.directory) as directory:
        folder = pathlib.Path(directory)
        (folder / "clean").mkdir()
        command = PEERS[peer](options.simdb.resolve(), corpus.parts, folder)
        report = {"peer": peer, **watched(command, folder, options)}
        if report["failed"]:
            return report, None
        ids = kept_ids(peer, folder)
        if peer.startswith("simdb"):
            demand_lines_of_input(corpus, folder / "clean")
    kept = numpy.zeros(corpus.count, dtype=bool)
    kept[ids] = True
    if numpy.count_nonzero(kept) != len(ids):
        raise SystemExit(f"{peer} kept a document twice")
    return report, ~kept


def percent(part, whole):
    return f"{100 * part / whole:.1f}" if whole else "—"


def row(report, documents):
    if report["failed"]:
        return [report["peer"], "—", report["failed"], number(report["peak_bytes"] / 1e6), *["—"] * 5]
    seconds = number(report["seconds"])
    if len(report["runs"]) > 1:
        seconds += f" ({number(report['least'])} to {number(report['greatest'])})"
    cells = [report["peer"], number(documents / report["seconds"]), seconds]
    cells += [number(report["peak_bytes"] / 1e6), f"{report['removed']:,}"]
    for judged in report["judged"].values():
        right, covered, left = (judged[name] for name in ("right", "covered", "left"))
        cells.append(f"{percent(right, report['removed'])} ({percent(covered, report['removed'])})")
        cells.append(percent(right, right + left))
    return cells


def main_table(reports, documents):
    columns = ["peer", "documents/s", "seconds", "peak MB", "removed"]
    for level in (format(level) for level in LEVELS):
        columns += [f"precision {level}, %", f"recall {level}, %"]
    return table(columns, [row(report, documents) for report in reports])


def of_rates(values, made):
    """The percentage of the copies of each rate for which a value is true."""
    return [percent(int(values[made.rates == rate].sum()), int((made.rates == rate).sum())) for rate in RATES]


def copies_table(made, truth, removals):
    columns = ["pairs of copy and source, %", *(f"{100 * rate:.0f} % of words changed" for rate in corpora_data.RATES)]
    near = ([f"Jaccard at least {level}", truth.connected(made.copies, made.sources, level)] for level in LEVELS)
    lost = ([peer, removed[made.copies] | removed[made.sources]] for peer, removed in removals)
    return table(columns, [[name, *of_rates(values, made)] for name, values in (*near, *lost)])


def prepared(folder, options):
    """The corpus, and how its documents were made if they were."""
    if not options.made:
        count = corpora_data.count_lines(options.corpus)
        count = min(count, options.documents or count)
        return Corpus(folder).write(corpora_data.real(options.corpus, options.documents), count), None
    made = Made(options.corpus, options.made)
    corpus = Corpus(folder).write(made.texts(), options.made)
    if corpus.count != options.made:
        raise SystemExit("a made document is too short")
    made.forget_texts()
    return corpus, made


def about(corpus, made, truth, options, seconds):
    kind = f"made of the texts of `{options.corpus.name}`" if made else f"of `{options.corpus.name}`"
    rng = numpy.random.default_rng(corpora_data.SEED)
    compared, near = truth.check(corpus, rng)
    corpus.shingles.unlink()
    everything = numpy.ones(corpus.count, dtype=bool)
    needed = ", ".join(f"{truth.to_remove(everything, level):,} at {level}" for level in LEVELS)
    return (
        f"{corpus.count:,} documents {kind}, {number(corpus.bytes / 1e6)} MB. An exact cleaning removes {needed}. "
        f"To prepare all took {number(seconds)} s. The join agrees with brute force over {compared} documents, with "
        f"{near:,} near pairs among them."
    )


def main():
    options = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    machine_is = machine()
    print(
        f"{machine_is['date']}, commit {machine_is['commit']}, {machine_is['cpu']}, two cores, "
        f"{machine_is['memory_bytes'] / 2**30:.0f} GiB of memory.\n"
    )
    with tempfile.TemporaryDirectory(prefix="simdb-corpora-", dir=options.directory) as directory:
        begin = time.monotonic()
        corpus, made = prepared(pathlib.Path(directory), options)
        truth = Truth(corpus)
        text = about(corpus, made, truth, options, time.monotonic() - begin)
        print(f"{text}\n", flush=True)
        reports, removals = [], []
        for peer in options.peers:
            print(peer, file=sys.stderr, flush=True)
            report, removed = measured(peer, corpus, truth, options)
            reports.append(report)
            if removed is not None:
                removals.append((peer, removed))
            if options.results:
                results = {"machine": machine_is, "corpus": text, "documents": corpus.count, "peers": reports}
                options.results.write_text(json.dumps(results, indent=2) + "\n")
        print(main_table(reports, corpus.count), flush=True)
        if made:
            print(f"\n{copies_table(made, truth, removals)}")


if __name__ == "__main__":
    main()
