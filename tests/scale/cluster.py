"""A Spark cluster on this machine: a master and two workers as processes, and a job during which a worker is killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

import pyspark

HERE = pathlib.Path(__file__).resolve().parent
# The least tasks of a stage in which a worker is killed: those that read what others have sent have 32.
TASKS = 8
MASTER = ("127.0.0.1", 17077)
SPARK = pathlib.Path(pyspark.__file__).parent


class Cluster:
    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.environment = {
            **os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": MASTER[0], "SPARK_NO_DAEMONIZE": "1",
            "SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "512m", "PYSPARK_PYTHON": sys.executable,
        }

    def __enter__(self):
        host, port = MASTER
        master = ["org.apache.spark.deploy.master.Master", "--host", host, "--port", str(port)]
        self.start("master", *master, "--webui-port", "18080")
        for number in (1, 2):
            self.start(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", f"spark://{host}:{port}", "--cores", "1",
                "--memory", "3g", "--host", host, "--port", str(17100 + number), "--webui-port", str(18080 + number),
            )
        for _ in range(120):
            if self.alive_workers() == 2:
                return self
            time.sleep(0.5)
        sys.exit(f"the workers of Spark have not come up; {self.folder} has their logs")

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "w") as log:
            spark_class = [SPARK / "bin/spark-class", *command]
            self.processes.append(subprocess.Popen(spark_class, env=self.environment, stdout=log, stderr=log))

    def alive_workers(self):
        try:
            with urllib.request.urlopen(f"http://{MASTER[0]}:18080/json/", timeout=5) as answer:
                return json.load(answer)["aliveworkers"]
        except OSError:
            return 0

    def kill_worker(self):
        """Kills the second worker and its executors, which are its children."""
        worker = self.processes[2].pid
        killed = [worker, *descendants(worker)]
        assert len(killed) > 1, "the worker has no executor"
        # The worker first. Otherwise it would start another executor.
        for process in killed:
            os.kill(process, signal.SIGKILL)
        return killed


def descendants(process):
    """The processes that a process has started, and that those have started."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
            except (OSError, IndexError):
                pass
    found, waiting = [], [process]
    while waiting:
        of = children.get(waiting.pop(), [])
        found += of
        waiting += of
    return found


def run_in_spark(folder, work, job, kill):
    """Runs a job in a cluster. With `kill`, kills a worker and its executor when the job is in the middle."""
    (folder / f"spark-{work}.sql").write_text(job)
    log = folder / f"spark-{work}.log"
    with Cluster(folder) as cluster, open(log, "w") as errors:
        master = f"spark://{MASTER[0]}:{MASTER[1]}"
        command = [sys.executable, HERE / "spark_job.py", master, folder / f"spark-{work}.sql"]
        began = time.time()
        driver = subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        killed, still_running = None, False
        for line in driver.stdout:
            told = json.loads(line)
            if told["what"] != "stage":
                print(f"{time.time() - began:7.1f} s  Spark, {work}: {line.strip()}", flush=True)
                continue
            # In the middle: this stage reads what earlier ones have written, some of which is lost too.
            if kill and killed is None and told["all"] >= TASKS and 0 < told["done"] < told["all"]:
                killed = cluster.kill_worker()
                at = time.time() - began
                print(f"{at:7.1f} s  killed a worker and its executor {killed} at {line.strip()}", flush=True)
            elif killed:
                still_running = True
        if driver.wait() != 0:
            sys.exit(f"the job of Spark has failed:\n{log.read_text()[-4000:]}")
    lost = [line for line in log.read_text().splitlines() if "Lost executor" in line or "resubmit" in line.lower()]
    if kill:
        assert killed and still_running, "the job had ended before the worker was killed"
        assert lost, "Spark has not told that it lost an executor"
        print("\n".join(lost[:4]), flush=True)
