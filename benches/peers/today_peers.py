"""The peers of `today.py` and `today_kills.py`: indexes that take documents and tell at once whether one is near.

    python benches/peers/today_peers.py measure NAME FOLDER TEXTS --batch 1000 --one 200
    python benches/peers/today_peers.py fill NAME FOLDER TEXTS --batch 100 --begin 0
    python benches/peers/today_peers.py look NAME FOLDER TEXTS

`measure` prints one JSON object. `fill` adds documents, and writes a line after each batch whose answer has come.
`look` opens what another process has left, and prints the numbers of the documents that are in it. TEXTS has a
document in each line, as a JSON string; its number is that of the line.

All peers store every document and tell of each whether an earlier one is near. How each is used:

simdb       the Python package, with its defaults. A document is near by the defaults of simdb. Answers are durable.
datasketch  `MinHashLSH` for a similarity of 0.7, 128 permutations, shingles of four words. In memory.
rensa       `RMinHashLSH` for 0.7, 128 permutations in 16 bands, the same shingles. A candidate is near if the
            estimate is at least 0.7. In memory.
lance       a dataset of Lance (`pylance`) with an index MINHASHLSH of shingles of four words, its other parameters as
            they are: 128 hashes in 16 bands. A batch is appended, the index is brought up to date, and each document of
            the batch is searched for. A single document is searched for and appended; the index is brought up to date
            after every 100, because rows that it does not have are read by each search. Near is an estimate of at
            least 0.7.
incrededup  the program, with a SQLite database of the documents, which it needs. Each batch, and each single document,
            is a run of the program, for there is no other way to have it find a document. Near is its default:
            sequences of three characters with an estimate of at least 0.8. A document is near to an earlier one if
            `dupes` has it as a child. Keys are UUIDs in the order of the documents.
sketchir    `store::UpdatableIndex` of the crate, by `src/bin/sketchir.rs`: 128 hashes in 16 bands, shingles of four
            words. Near is an estimate of at least 0.7.
"""

import argparse
import concurrent.futures
import datetime
import itertools
import json
import os
import pathlib
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
SKETCHIR = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release" / "sketchir"
INCREDEDUP = os.environ.get("INCREDEDUP", "incrededup")
PERMUTATIONS = 128
BANDS = 16
SHINGLE = 4
SIMILARITY = 0.7
# Lance: single documents between two updates of the index; and the answers to a search. Copies of one document are few.
SINGLE_ROWS = 100
ANSWERS = 50


def shingles(text):
    words = text.lower().split()
    return [" ".join(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))]


def status(process, field):
    """Bytes of memory of a process, as the system counts them."""
    with open(f"/proc/{process}/status") as file:
        return 1024 * int(next(line.split()[1] for line in file if line.startswith(field)))


def allocated(path):
    files = [path] if path.is_file() else [it for it in path.rglob("*") if it.is_file()]
    return sum(512 * it.stat().st_blocks for it in files)


class Peer:
    """`add` stores documents and tells which are near an earlier one. `found` tells which documents are near a text."""

    on_disk = True

    def __init__(self, folder):
        self.folder = folder

    def found(self, texts):
        return [self.near(text) for text in texts]

    def settle(self):
        """Frees the space that can be freed."""

    def close(self):
        pass

    def processor_seconds(self):
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime

    def peak_bytes(self):
        return status("self", "VmHWM")

    def resting_bytes(self):
        return status("self", "VmRSS")

    def index_bytes(self):
        return allocated(self.folder)


class Simdb(Peer):
    def __init__(self, folder):
        super().__init__(folder)
        import simdb

        self.database = simdb.open(folder / "documents.simdb")

    def add(self, batch):
        if len(batch) == 1:
            number, text = batch[0]
            verdicts = [self.database.insert_if_new(str(number), text, on_match="link", limit=ANSWERS)]
        else:
            pairs = ((str(number), text) for number, text in batch)
            several = {"on_match": "link", "batch": len(batch), "limit": ANSWERS}
            verdicts = self.database.insert_many_if_new(pairs, **several)
        # A batch that is given again after a kill may meet later documents, its own.
        return [
            any(int(match.key) < number for match in verdict.matches)
            for (number, _), verdict in zip(batch, verdicts, strict=True)
        ]

    def near(self, text):
        return {int(match.key) for match in self.database.query(text, limit=ANSWERS)}

    def delete(self, numbers):
        self.database.delete_many(map(str, numbers))

    def stored(self, documents):
        numbers = [number for number, _ in documents if str(number) in self.database]
        if len(numbers) != len(self.database):
            raise SystemExit("simdb has documents that nobody gave it")
        if faults := self.database.check():
            raise SystemExit(f"simdb finds its file damaged: {faults}")
        return numbers

    def settle(self):
        self.database.compact()

    def close(self):
        self.database.close()


class Datasketch(Peer):
    on_disk = False

    def __init__(self, folder):
        super().__init__(folder)
        import datasketch

        self.make = lambda: datasketch.MinHash(num_perm=PERMUTATIONS)
        self.index = datasketch.MinHashLSH(threshold=SIMILARITY, num_perm=PERMUTATIONS)

    def described(self, text):
        made = self.make()
        made.update_batch([shingle.encode() for shingle in shingles(text)])
        return made

    def add(self, batch):
        found = []
        for number, text in batch:
            made = self.described(text)
            found.append(bool(self.index.query(made)))
            self.index.insert(number, made)
        return found

    def near(self, text):
        return set(self.index.query(self.described(text)))

    def delete(self, numbers):
        for number in numbers:
            self.index.remove(number)


class Rensa(Peer):
    on_disk = False

    def __init__(self, folder):
        super().__init__(folder)
        import rensa

        self.describe = lambda texts: rensa.RMinHash.from_token_sets(
            [shingles(text) for text in texts], num_perm=PERMUTATIONS, seed=42
        )
        self.index = rensa.RMinHashLSH(threshold=SIMILARITY, num_perm=PERMUTATIONS, num_bands=BANDS)
        # Its index gives numbers only, and the estimate needs both descriptions.
        self.made = {}

    def add(self, batch):
        found = []
        for (number, _), made in zip(batch, self.describe([text for _, text in batch]), strict=True):
            found.append(bool(self.alike(made)))
            self.index.insert(number, made)
            self.made[number] = made
        return found

    def alike(self, made):
        return {it for it in self.index.query(made) if made.jaccard(self.made[it]) >= SIMILARITY}

    def near(self, text):
        return self.alike(self.describe([text])[0])

    def delete(self, numbers):
        for number in numbers:
            self.index.remove(number)
            del self.made[number]


class Lance(Peer):
    def __init__(self, folder):
        super().__init__(folder)
        os.environ.setdefault("LANCE_LOG", "error")
        import lance
        import pyarrow
        from lance.indices import IndexConfig
        from lance.query import MinHashQuery

        self.lance, self.arrow, self.query = lance, pyarrow, MinHashQuery
        self.config = IndexConfig("MINHASHLSH", {"shingle_size": SHINGLE})
        self.path = folder / "documents.lance"
        self.dataset = lance.dataset(self.path) if self.path.exists() else None
        self.not_indexed = 0
        self.threads = concurrent.futures.ThreadPoolExecutor(2)

    def append(self, batch):
        schema = self.arrow.schema([("number", self.arrow.int64()), ("text", self.arrow.string())])
        table = self.arrow.table([[it[0] for it in batch], [it[1] for it in batch]], schema=schema)
        if self.dataset is None:
            self.dataset = self.lance.write_dataset(table, self.path)
        else:
            self.dataset.insert(table)
        # An index of no rows cannot be searched, so it is made with the first ones. A kill may come before it is.
        if not self.dataset.list_indices():
            self.dataset.create_scalar_index("text", self.config)

    def add(self, batch):
        if len(batch) == 1:
            near = [bool(self.dataset and self.near(batch[0][1]))]
            self.append(batch)
            self.not_indexed += 1
            if self.not_indexed >= SINGLE_ROWS:
                self.dataset.optimize.optimize_indices()
                self.not_indexed = 0
            return near
        self.append(batch)
        self.dataset.optimize.optimize_indices()
        found = self.threads.map(self.near, [text for _, text in batch])
        return [any(it < number for it in near) for (number, _), near in zip(batch, found, strict=True)]

    def near(self, text):
        search = {"nearest": self.query(text, "text"), "limit": ANSWERS}
        rows = self.dataset.to_table(columns=["number", "_distance"], **search).to_pydict()
        if len(rows["number"]) == ANSWERS and rows["_distance"][-1] <= 1 - SIMILARITY:
            raise SystemExit("more documents are near than were asked for")
        pairs = zip(rows["number"], rows["_distance"], strict=True)
        return {number for number, distance in pairs if distance <= 1 - SIMILARITY + 1e-6}

    def delete(self, numbers):
        self.dataset.delete(f"number IN ({', '.join(map(str, numbers))})")

    def stored(self, documents):
        return [] if self.dataset is None else self.dataset.to_table(columns=["number"])["number"].to_pylist()

    def settle(self):
        # By default, deleted rows stay while they are a tenth or less.
        self.dataset.optimize.compact_files(materialize_deletions_threshold=0.0)
        self.dataset.optimize.optimize_indices()
        self.dataset.cleanup_old_versions(older_than=datetime.timedelta(0))

    def index_bytes(self):
        return allocated(self.path / "_indices")


class Incrededup(Peer):
    # Documents that are only there to be looked for have numbers from here on.
    ASKED = 1 << 40

    def __init__(self, folder):
        super().__init__(folder)
        self.peak = 0
        self.asked = self.ASKED
        self.documents = sqlite3.connect(folder / "documents.sqlite", isolation_level=None, timeout=60)
        self.documents.executescript(
            "CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, content TEXT NOT NULL,"
            " content_len INTEGER NOT NULL, filename TEXT, is_parent INTEGER);"
            "CREATE TABLE IF NOT EXISTS dupes (child_id TEXT PRIMARY KEY, parent_id TEXT NOT NULL,"
            " jaccard_similarity REAL NOT NULL, size_difference INTEGER NOT NULL, size_difference_pct REAL NOT NULL);"
            "CREATE INDEX IF NOT EXISTS idx_documents_is_parent ON documents(is_parent);"
        )

    def command(self):
        command = [INCREDEDUP, "--sqlite", self.folder / "documents.sqlite", "--data-dir", self.folder / "index"]
        return [*command, "--min-content-len", "0", "--workers", "2"]

    def run(self):
        with tempfile.TemporaryFile(dir=self.folder) as messages:
            process = subprocess.Popen(self.command(), stdout=messages, stderr=messages)
            while process.poll() is None:
                try:
                    self.peak = max(self.peak, status(process.pid, "VmHWM"))
                except (OSError, StopIteration):
                    break
                time.sleep(0.002)
            if process.wait():
                messages.seek(0)
                raise SystemExit(messages.read().decode(errors="replace").strip())

    def put(self, batch):
        rows = [(str(uuid.UUID(int=number)), text, len(text.encode())) for number, text in batch]
        self.documents.execute("BEGIN")
        self.documents.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, NULL, NULL)", rows)
        self.documents.execute("COMMIT")
        self.run()

    def parents(self, numbers):
        """What `dupes` has for documents: for each that is a child, its parent."""
        pairs = self.documents.execute("SELECT child_id, parent_id FROM dupes")
        parents = {uuid.UUID(child).int: uuid.UUID(parent).int for child, parent in pairs}
        return [parents.get(number) for number in numbers]

    def add(self, batch):
        self.put(batch)
        return [parent is not None for parent in self.parents([number for number, _ in batch])]

    def found(self, texts):
        batch = list(zip(itertools.count(self.asked), texts))
        self.asked += len(batch)
        self.put(batch)
        return [set() if parent is None else {parent} for parent in self.parents([number for number, _ in batch])]

    def delete(self, numbers):
        """From the database. No call or option takes a document out of the index of the program."""
        keys = [(str(uuid.UUID(int=number)),) for number in numbers]
        self.documents.execute("BEGIN")
        self.documents.executemany("DELETE FROM documents WHERE id = ?", keys)
        self.documents.execute("COMMIT")

    def stored(self, documents):
        ids = self.documents.execute("SELECT id FROM documents WHERE is_parent IS NOT NULL")
        return [uuid.UUID(it).int for (it,) in ids]

    def settle(self):
        self.documents.execute("VACUUM")

    def peak_bytes(self):
        return self.peak

    def resting_bytes(self):
        return 0

    def index_bytes(self):
        return allocated(self.folder / "index")


class Sketchir(Peer):
    """It talks to a process of `src/bin/sketchir.rs`."""

    def __init__(self, folder):
        super().__init__(folder)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([SKETCHIR, folder / "index"], **pipes)

    def ask(self, name, lines):
        lines = [line.replace("\n", " ") for line in lines]
        try:
            self.process.stdin.write("\n".join([f"{name} {len(lines)}", *lines]) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"sketchir ended with code {self.process.wait()}")
        return json.loads(answer)

    def add(self, batch):
        answers = self.ask("add", [f"{number}\t{text}" for number, text in batch])
        return [any(it < number for it in near) for (number, _), near in zip(batch, answers, strict=True)]

    def found(self, texts):
        return [set(it) for it in self.ask("find", texts)]

    def delete(self, numbers):
        self.ask("delete", map(str, numbers))

    def stored(self, documents):
        """It has no list of its documents. But it finds each by its text."""
        documents = list(documents)
        found = self.found([text for _, text in documents])
        return [number for (number, _), near in zip(documents, found, strict=True) if number in near]

    def settle(self):
        self.ask("compact", [])

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self):
        return status(self.process.pid, "VmHWM")

    def resting_bytes(self):
        return status(self.process.pid, "VmRSS")


PEERS = {
    "simdb": Simdb,
    "datasketch": Datasketch,
    "rensa": Rensa,
    "lance": Lance,
    "incrededup": Incrededup,
    "sketchir": Sketchir,
}


def texts_of(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            yield number, json.loads(line)


def batches(documents, size):
    while batch := list(itertools.islice(documents, size)):
        yield batch


def timed(peer, parts):
    """What all parts gave, and the seconds by the clock and of the processor."""
    begin, begin_processor = time.monotonic(), peer.processor_seconds()
    near = [it for part in parts for it in peer.add(part)]
    return near, time.monotonic() - begin, peer.processor_seconds() - begin_processor


def measure(options):
    """Inserts in batches, then one by one, then deletes."""
    peer = PEERS[options.peer](options.folder)
    report = {"peer": options.peer, "before_bytes": peer.resting_bytes()}
    with open(options.texts, "rb") as file:
        count = sum(1 for _ in file)
    documents = texts_of(options.texts)
    together = count - options.one
    near, *took = timed(peer, batches(itertools.islice(documents, together), options.batch))
    report |= {"together": together, "together_seconds": took[0], "together_processor_seconds": took[1]}
    more, *took = timed(peer, batches(documents, 1))
    report |= {"one": options.one, "one_seconds": took[0], "one_processor_seconds": took[1], "near": near + more}
    report["peak_bytes"] = peer.peak_bytes()
    report["sizes"] = [sizes(peer)]
    peer.settle()
    report["sizes"].append(sizes(peer))
    gone = [int(it) for it in options.delete.split(",")]
    wanted = gone[: options.ask]
    texts = {number: text for number, text in texts_of(options.texts) if number in wanted}
    asked = [texts[number] for number in wanted]
    report["found"] = still_found(peer, wanted, asked)
    begin = time.monotonic()
    peer.delete(gone)
    report["delete_seconds"] = time.monotonic() - begin
    report["still_found"] = still_found(peer, wanted, asked)
    report["sizes"].append(sizes(peer))
    peer.settle()
    report["still_found_settled"] = still_found(peer, wanted, asked)
    report["sizes"].append(sizes(peer))
    peer.close()
    print(json.dumps(report))


def still_found(peer, numbers, texts):
    """How many of the documents are near to their own texts."""
    return sum(number in near for number, near in zip(numbers, peer.found(texts), strict=True))


def sizes(peer):
    return [allocated(peer.folder), peer.index_bytes()] if peer.on_disk else None


def fill(options):
    peer = PEERS[options.peer](options.folder)
    documents = itertools.islice(texts_of(options.texts), options.begin, options.end)
    for batch in batches(documents, options.batch):
        print(json.dumps([[number for number, _ in batch], peer.add(batch)]), flush=True)
    if options.hold:
        sys.stdin.read()
    peer.close()


def look(options):
    peer = PEERS[options.peer](options.folder)
    print(json.dumps(sorted(peer.stored(texts_of(options.texts)))))
    peer.close()


def main():
    parser = argparse.ArgumentParser(description="One peer of today.py", allow_abbrev=False)
    parser.add_argument("what", choices=["measure", "fill", "look"])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=1000, help="documents that are given together")
    parser.add_argument("--one", type=int, default=200, help="how many are given one at a time, after all others")
    parser.add_argument("--delete", default="", help="the numbers of the documents to delete")
    parser.add_argument("--ask", type=int, default=20, help="of how many of these it is asked whether they are found")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--end", type=int)
    parser.add_argument("--hold", action="store_true", help="keep it open until the standard input ends")
    options = parser.parse_args()
    {"measure": measure, "fill": fill, "look": look}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
