"""Compares the pairs of `simdb pairs` with those of the jobs in SQL. Is run by `run`."""

import pathlib
import shutil
import subprocess
import sys
import time

import duckdb

from documents import even_fingerprints, fingerprints, write_dump

# The distance of the jobs that Spark does too. They give no ids.
MAX_DISTANCE = 3
# Those of jobs that give ids. Spark does the first.
OTHER_DISTANCES = [1, 0, 4]
QUERIES = 20_000


class Scale:
    def __init__(self, simdb, folder, documents):
        self.simdb, self.folder, self.documents = simdb, folder, documents
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def path(self, name):
        return str(self.folder / name)

    def run(self, *arguments):
        ran = subprocess.run([self.simdb, *arguments], stdout=subprocess.PIPE, text=True)
        if ran.returncode != 0:
            sys.exit(f"simdb {' '.join(arguments)} has failed with {ran.returncode}")
        return ran.stdout

    def make(self):
        """Makes both databases, exports them, and has simdb find the pairs."""
        for name, count, seed in [("documents", self.documents, 1), ("queries", QUERIES, 2)]:
            began = time.time()
            write_dump(self.path(f"{name}.jsonl"), fingerprints(count, seed), count, name[0])
            if name == "queries":
                self.borrow_queries()
            self.run("load", self.path(f"{name}.simdb"), self.path(f"{name}.jsonl"))
            told(f"made {name}.simdb of {count} documents", began)
            began = time.time()
            self.run("export", self.path(f"{name}.simdb"), self.path(f"{name}.parquet"))
            told(f"exported {name}.parquet", began)
        self.find_pairs(MAX_DISTANCE)

    def measure_rates(self):
        """Runs the join of evenly spread fingerprints, of which each key has few: the times are those of the rows."""
        made = even_fingerprints(self.documents, 1)
        write_dump(self.path("documents.jsonl"), made, self.documents, "d")
        self.run("load", self.path("documents.simdb"), self.path("documents.jsonl"))
        pathlib.Path(self.path("documents.jsonl")).unlink()
        self.run("export", self.path("documents.simdb"), self.path("documents.parquet"))
        began = time.time()
        pairs = ["--groups", "--max-distance", str(MAX_DISTANCE), "--format", "parquet", "--output"]
        self.run("pairs", self.path("documents.simdb"), *pairs, self.path("simdb-self.parquet"))
        told(f"simdb pairs within {MAX_DISTANCE}", began)
        self.duckdb("self", MAX_DISTANCE)
        self.spark("self", MAX_DISTANCE)

    def find_pairs(self, distance):
        """Has simdb find the pairs within a distance."""
        pairs = ["--groups", "--max-distance", str(distance), "--format", "parquet", "--replace", "--output"]
        began = time.time()
        self.run("pairs", self.path("documents.simdb"), *pairs, self.path("simdb-self.parquet"))
        told(f"simdb pairs within {distance}", began)
        began = time.time()
        probe = ["--with", self.path("documents.simdb"), *pairs, self.path("simdb-probe.parquet")]
        self.run("pairs", self.path("queries.simdb"), *probe)
        told(f"simdb pairs --with within {distance}", began)

    def borrow_queries(self):
        """Every second query gets the fingerprint of a document, and every fourth one that is near to it."""
        with open(self.path("documents.jsonl")) as documents:
            bits = [line.split('"')[7] for _, line in zip(range(QUERIES), documents) if '"key"' in line]
        with open(self.path("queries.jsonl")) as queries:
            lines = queries.readlines()
        for number in range(1, len(lines), 2):
            old = lines[number].split('"')[7]
            near = int(bits[(number * 7) % len(bits)], 16) ^ (1 << number % 64 if number % 4 == 1 else 0)
            lines[number] = lines[number].replace(old, f"{near:016x}")
        with open(self.path("queries.jsonl"), "w") as queries:
            queries.writelines(lines)

    def job(self, dialect, work, pairs, distance, *options):
        """The job in SQL, with the paths of this run, as statements."""
        text = self.run(
            "plan", "--emit", dialect, "--job", work, "--expect", str(self.documents), "--queries", str(QUERIES),
            "--max-distance", str(distance), *options,
        )
        for name in ["documents", "queries"]:
            text = text.replace(f"= {name}.parquet;", f"= {self.path(name)}.parquet;")
            text = text.replace(f"= '{name}.parquet';", f"= '{self.path(name)}.parquet';")
        text = text.replace("= pairs.parquet;", f"= {self.path(pairs)};")
        return text.replace("= 'pairs.parquet';", f"= '{self.path(pairs)}';")

    def duckdb(self, work, distance, *options):
        began = time.time()
        limits = {"threads": 2, "memory_limit": "4GB", "temp_directory": self.path("spill")}
        connection = duckdb.connect(config=limits)
        connection.execute(self.job("duckdb-sql", work, f"duckdb-{work}.parquet", distance, *options))
        told(f"DuckDB, {work} within {distance}", began)
        connection.close()
        self.ensure_same(work, f"duckdb-{work}.parquet")

    def spark(self, work, distance, *options, kill=False):
        from cluster import run_in_spark
        shutil.rmtree(self.path(f"spark-{work}.parquet"), ignore_errors=True)
        job = self.job("spark-sql", work, f"spark-{work}.parquet", distance, *options)
        run_in_spark(self.folder, work, job, kill=kill)
        self.ensure_same(work, f"spark-{work}.parquet/*.parquet")

    def ensure_ids(self, work, pairs):
        """Every id is that of a document of its fingerprint."""
        for side in "ab" if work == "self" else "b":
            wrong = count(
                f"SELECT * FROM '{self.path(pairs)}' p LEFT JOIN '{self.path('documents.parquet')}' d "
                f"ON p.id_{side} = d.id WHERE d.fp IS DISTINCT FROM p.fp_{side}"
            )
            if wrong:
                sys.exit(f"{pairs}: {wrong} of id_{side} are not those of the fingerprints")

    def ensure_same(self, work, pairs):
        """Compares the pairs with those of simdb: none is missing, none is there twice."""
        files = [f"simdb-{work}.parquet", pairs]
        ours, theirs = (f"SELECT fp_a, fp_b, distance FROM '{self.path(it)}'" for it in files)
        # A probe gives a row for each document, and simdb one for each fingerprint.
        if work == "probe":
            ours = f"SELECT fp_a, fp_b, distance, documents_b AS n FROM '{self.path('simdb-probe.parquet')}'"
            theirs = f"SELECT fp_a, fp_b, distance, count(*) AS n FROM '{self.path(pairs)}' GROUP BY ALL"
        missing, more = count(f"{ours} EXCEPT ALL {theirs}"), count(f"{theirs} EXCEPT ALL {ours}")
        pairs_of_simdb = count(ours)
        if missing or more or pairs_of_simdb < min(self.documents // 100, QUERIES // 10):
            sys.exit(f"{pairs}: of {pairs_of_simdb} pairs of simdb {missing} are missing, and {more} are too many")
        print(f"{pairs}: the same {pairs_of_simdb} pairs as of simdb", flush=True)

    def clusters(self):
        """Makes connected clusters of the pairs of SQL, and compares their sizes with those of the database."""
        began = time.time()
        options = ["--connected", "--summary"]
        distance = ["--max-distance", str(MAX_DISTANCE)]
        ours = self.run("clusters", self.path("documents.simdb"), *distance, *options)
        theirs = self.run("clusters", self.path("duckdb-self.parquet"), "--pairs", *options)
        clusters = len(theirs.splitlines())
        if len(ours.splitlines()) != clusters or clusters < self.documents // 100:
            sys.exit(f"{len(ours.splitlines())} clusters of the database, {clusters} of the pairs")
        told(f"the same {clusters} clusters of the database and of the pairs", began)

    def ensure_crowded(self):
        """The data has keys that are cut further. Otherwise that would not be tested."""
        keys = duckdb.sql(
            f"SELECT max(n) FROM (SELECT count(DISTINCT fp) AS n FROM '{self.path('documents.parquet')}' "
            "GROUP BY fp & 65535)"
        ).fetchall()[0][0]
        assert keys > self.documents // 50, f"the fullest key has {keys} fingerprints only"


def count(query):
    return duckdb.sql(f"SELECT count(*) FROM ({query})").fetchall()[0][0]


def told(what, began):
    print(f"{time.time() - began:7.1f} s  {what}", flush=True)


def main():
    simdb, folder, documents, what = sys.argv[1:]
    scale = Scale(simdb, pathlib.Path(folder), int(documents))
    if what == "rates":
        return scale.measure_rates()
    scale.make()
    scale.ensure_crowded()
    for work in ["self", "probe"]:
        scale.duckdb(work, MAX_DISTANCE)
    scale.clusters()
    if what == "all":
        for work in ["self", "probe"]:
            scale.spark(work, MAX_DISTANCE, kill=work == "self")
    for distance in OTHER_DISTANCES:
        scale.find_pairs(distance)
        for work in ["self", "probe"]:
            scale.duckdb(work, distance, "--ids")
            scale.ensure_ids(work, f"duckdb-{work}.parquet")
            if what == "all" and distance == OTHER_DISTANCES[0]:
                scale.spark(work, distance, "--ids")
                scale.ensure_ids(work, f"spark-{work}.parquet/*.parquet")
    print("all pairs are the same")


if __name__ == "__main__":
    main()
