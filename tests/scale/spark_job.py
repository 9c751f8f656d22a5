"""Runs a job in Spark and tells on standard output what it does, as JSON Lines. Is run by cluster.py."""

import json
import pathlib
import sys
import threading
import time
import urllib.request

from pyspark.sql import SparkSession

# Many small tasks, so that there is a middle.
SETTINGS = {
    "spark.executor.memory": "2g",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.port": "14040",
}


def tell(**what):
    print(json.dumps(what), flush=True)


def watch(context):
    tracker = context.statusTracker()
    while True:
        for stage in tracker.getActiveStageIds():
            known = tracker.getStageInfo(stage)
            if known:
                tell(what="stage", stage=stage, done=known.numCompletedTasks, all=known.numTasks)
        time.sleep(0.1)


def statements(text):
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [it.strip() for it in "\n".join(lines).split(";") if it.strip()]


def main():
    master, job = sys.argv[1:]
    builder = SparkSession.builder.master(master).appName("simdb")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext
    context.setLogLevel("INFO")
    threading.Thread(target=watch, args=(context,), daemon=True).start()
    began = time.time()
    for statement in statements(pathlib.Path(job).read_text()):
        spark.sql(statement)
    seconds = time.time() - began
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urllib.request.urlopen(url) as answer:
        stages = [it for it in json.load(answer) if it["status"] == "COMPLETE"]
    names = ["shuffleWriteBytes", "shuffleWriteRecords", "executorRunTime"]
    total = {name: sum(it[name] for it in stages) for name in names}
    tell(what="done", seconds=round(seconds, 1), stages=len(stages), **total)
    spark.stop()


if __name__ == "__main__":
    main()
