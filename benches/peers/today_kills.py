"""Kills the indexes on disk of `today.py` while they take documents, and opens them from a second process.

    python benches/peers/today_kills.py --kills 20

A process gives a peer the documents of `python_index.py` in batches, and writes a line after each answer. It is killed
by SIGKILL, with all processes that it started, at a random moment. Then another process opens what is there and lists
the documents in it, and a third goes on behind the last batch that was answered, as a client would that knows no more
than its answers. At the end:

  cannot be opened  kills after which the folder cannot be opened, or the peer cannot go on in it.
  lost              documents that had been answered, and are not there after the kill.
  there in part     kills after which a part of a batch is there, and not all of it.
  doubled           documents that are there twice at the end, because their batch had been stored and not answered.
  missing           documents that are not there at the end.
  other answers     documents that have an earlier one near in a run with a kill and none in a run without, or the other
                    way round.

A kill leaves what the system has in memory, so it says nothing of a loss of power. How often a peer asks the system to
write to the disk is counted by strace, if that is installed, over ten batches.

Then a second process, while the first fills what it has open, and after that: once it lists it, once it adds others.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import today_peers
from python_index import documents
from run import machine, table

PEERS = pathlib.Path(__file__).resolve().parent / "today_peers.py"
ON_DISK = [name for name, peer in today_peers.PEERS.items() if peer.on_disk]


def arguments():
    parser = argparse.ArgumentParser(description="Kill indexes of documents", allow_abbrev=False)
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", default=",".join(ON_DISK), help="comma-separated; default: %(default)s")
    parser.add_argument("--directory", help="where all is written; default: that of the system")
    parser.add_argument("--results", type=pathlib.Path, help="a file for everything that was seen, as JSON")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    return options


def command(what, peer, folder, texts, options, *more):
    return [sys.executable, PEERS, what, peer, folder, texts, "--batch", str(options.batch), *map(str, more)]


def filled(lines):
    """The answers to each document of the batches that were answered."""
    answers = {}
    for line in lines:
        # The last line of a process that was killed may be a part of one.
        if line.endswith("\n"):
            numbers, near = json.loads(line)
            answers |= dict(zip(numbers, near, strict=True))
    return answers


def undisturbed(peer, texts, options):
    """The answers without a kill, and the seconds from the first to the last."""
    with tempfile.TemporaryDirectory(prefix=f"kills-{peer}-", dir=options.directory) as folder:
        process = subprocess.Popen(command("fill", peer, folder, texts, options), stdout=subprocess.PIPE, text=True)
        first = process.stdout.readline()
        begin = time.monotonic()
        answers = filled([first, *process.stdout])
        if process.wait():
            raise SystemExit(f"{peer} fails without a kill")
        return answers, time.monotonic() - begin


def killed_after(begun, seconds):
    """Kills a process, and all that it started, so many seconds after its first answer: the lines that it wrote."""
    lines = [begun.stdout.readline()]
    time.sleep(seconds)
    os.killpg(begun.pid, signal.SIGKILL)
    lines += begun.stdout
    begun.wait()
    return lines


def looked(peer, folder, texts, options):
    """The documents that are there, or the error."""
    done = subprocess.run(command("look", peer, folder, texts, options), capture_output=True, text=True)
    if done.returncode:
        return None, reason(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]), None


def reason(text):
    """The line that tells what failed: the last one that names an error, or the last one."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in text.strip().splitlines()]
    lines = [line for line in lines if line] or ["no message"]
    named = [line for line in lines if re.search(r"error|cannot|fail|already", line, re.IGNORECASE)]
    return re.sub(r"\S*/\S*/\S*", "PATH", (named or lines)[-1])[:160]


def one_kill(peer, texts, expected, seconds, options):
    with tempfile.TemporaryDirectory(prefix=f"kills-{peer}-", dir=options.directory) as folder:
        filling = command("fill", peer, folder, texts, options)
        begun = subprocess.Popen(filling, stdout=subprocess.PIPE, text=True, start_new_session=True)
        answers = filled(killed_after(begun, seconds))
        there, error = looked(peer, folder, texts, options)
        if error:
            return {"answered": len(answers), "error": error}
        behind = set(there) - set(answers)
        again = subprocess.run(
            [*filling, "--begin", str(len(answers))], capture_output=True, text=True, start_new_session=True
        )
        if again.returncode:
            return {"answered": len(answers), "error": reason(again.stderr)}
        answers |= filled(again.stdout.splitlines(keepends=True))
        end, error = looked(peer, folder, texts, options)
        if error:
            return {"answered": len(answers), "error": error}
    twice = sum(times - 1 for times in collections.Counter(end).values())
    return {
        "answered": len(answers),
        "error": None,
        "lost": len(set(answers_before(answers, again)) - set(there)),
        "part": 0 < len(behind) < options.batch,
        "unanswered": len(behind),
        "doubled": twice,
        "missing": len(set(expected) - set(end)),
        "other_answers": sum(answers[it] != expected[it] for it in expected),
    }


def answers_before(answers, again):
    """The documents that had been answered before the kill."""
    return set(answers) - set(filled(again.stdout.splitlines(keepends=True)))


def kills(peer, texts, options):
    expected, whole = undisturbed(peer, texts, options)
    rng = random.Random(options.seed)
    seen = []
    for turn in range(options.kills):
        seconds = rng.uniform(0, 0.95 * whole)
        print(f"{peer}: kill {turn + 1} after {seconds:.2f} s", file=sys.stderr, flush=True)
        seen.append(one_kill(peer, texts, expected, seconds, options))
    return seen


def kills_row(peer, seen):
    whole = [it for it in seen if not it["error"]]
    row = [peer, str(len(seen)), str(len(seen) - len(whole))]
    row += [str(sum(it[name] for it in whole)) for name in ("lost", "part", "doubled", "missing", "other_answers")]
    return row


def syncs(peer, texts, options):
    """How often the system is asked to write to the disk, in ten batches."""
    if not shutil.which("strace"):
        return "—"
    with tempfile.TemporaryDirectory(prefix=f"kills-{peer}-", dir=options.directory) as folder:
        trace = pathlib.Path(folder) / "trace"
        inner = pathlib.Path(folder) / "peer"
        inner.mkdir()
        fill = command("fill", peer, inner, texts, options, "--end", 10 * options.batch)
        watch = ["strace", "-f", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-y", "-o", trace]
        subprocess.run([*watch, *fill], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = [line for line in trace.read_text().splitlines() if "sync" in line]
        # Those of the SQLite database of incrededup are not its own.
        return str(sum("documents.sqlite" not in line and "resumed" not in line for line in lines))


def second(peer, texts, options):
    """What a second process sees and does while the first adds documents."""
    half = options.documents // 2
    with tempfile.TemporaryDirectory(prefix=f"kills-{peer}-", dir=options.directory) as folder:
        fill = command("fill", peer, folder, texts, options, "--end", half, "--hold")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        first = subprocess.Popen(fill, **pipes, text=True)
        first.stdout.readline()
        there, error = looked(peer, folder, texts, options)
        reads = f"error: {error}" if error else f"sees {len(there)} documents"
        more = command("fill", peer, folder, texts, options, "--begin", half)
        other = subprocess.run(more, capture_output=True, text=True)
        _, said = first.communicate()
        end, error = looked(peer, folder, texts, options)
        writes = f"error: {reason(other.stderr)}" if other.returncode else "adds"
        ends = f"error: {reason(said)}" if first.returncode else "ends well"
        answered = len(filled(other.stdout.splitlines(keepends=True)))
        count = error or f"{len(set(end))}, answered {half + answered}"
        return [peer, reads, writes, ends, count]


def main():
    options = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    about = machine()
    print(f"{about['date']}, commit {about['commit']}, {about['cpu']}, two cores.\n", flush=True)
    rows, others, results = [], [], {}
    with tempfile.TemporaryDirectory(prefix="simdb-kills-", dir=options.directory) as directory:
        texts = pathlib.Path(directory) / "texts.jsonl"
        made = documents(options.documents, options.words)
        texts.write_text("".join(json.dumps(text) + "\n" for text in made), encoding="utf-8")
        for peer in options.peers:
            results[peer] = kills(peer, texts, options)
            rows.append([*kills_row(peer, results[peer]), syncs(peer, texts, options)])
            others.append(second(peer, texts, options))
            if options.results:
                options.results.write_text(json.dumps(results, indent=2) + "\n")
    columns = ["peer", "kills", "cannot be opened", "lost", "there in part", "doubled", "missing", "other answers"]
    print(f"{options.documents} documents in batches of {options.batch}:\n")
    print(table([*columns, "syncs in ten batches"], rows))
    columns = ["peer", "second process lists", "second process adds", "the first", "there at the end"]
    print(f"\n{table(columns, others)}")
    for peer, seen in results.items():
        for error, times in collections.Counter(it["error"] for it in seen if it["error"]).items():
            print(f"\n{peer}, {times} times: {error}")


if __name__ == "__main__":
    main()
