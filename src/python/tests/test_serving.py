"""Many processes at one database: one serves, and the others are its clients."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import math
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import simdb
from conftest import FOX, Start, in_fork, text_of

redis = pytest.importorskip("redis")


class Owner:
    """A process that serves a database, as a new user starts one."""

    def __init__(self, path: Path, *options: str) -> None:
        command = [sys.executable, "-m", "simdb", "serve", str(path), *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        ready = self.process.stderr.readline()
        assert ready == f"simdb: serves at {path}.sock\n", ready

    def pause(self) -> None:
        """The signal alone returns before all its threads stand still, and one of them may yet answer."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def owner(path: Path) -> Iterator[Owner]:
    owner = Owner(path)
    yield owner
    owner.kill()


@pytest.fixture
def client(owner: Owner, path: Path) -> Iterator[simdb.Client]:
    with simdb.connect(path, timeout=30) as client:
        yield client


@pytest.fixture
def started(path: Path) -> Iterator[Path]:
    """A path whose database is served by whoever a client starts. That one is ended."""
    yield path
    try:
        information = simdb_cli(path, "SIM.INFO")
    except OSError:
        return
    os.kill(information["process"], signal.SIGTERM)
    wait_until(lambda: not Path(f"{path}.sock").exists())


def simdb_cli(path: Path, *words: str) -> Any:
    with redis.Redis(unix_socket_path=f"{path}.sock", decode_responses=True) as connection:
        try:
            answer = connection.execute_command(*words)
        except redis.ConnectionError as error:
            raise ConnectionError from error
    return as_map(answer)


def as_map(answer: Any) -> dict[str, Any]:
    """A map, which version 2 of RESP gives as a list."""
    if isinstance(answer, dict):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))


def wait_until(is_so: Any) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_client_has_the_calls_of_a_database(client: simdb.Client, path: Path) -> None:
    assert client.scheme == "minwise-1" and client.max_distance == 8 and client.sketch_bytes == 16
    assert client.min_similarity == 0.7 and client.path == path and not client.closed
    first = client.insert_if_new("a", FOX, seen=5, rank=3, scope="en", payload=b"\0x")
    assert first.is_new and first.stored and first.change == "inserted"
    second = client.insert_if_new("b", FOX + " again", scopes=["en"])
    assert second.is_duplicate and second.nearest is not None and second.nearest.key == "a"
    assert second.nearest.similarity is not None and second.nearest.similarity > 0.8
    stored = client.get("a")
    assert stored is not None and (stored.seen, stored.scope, stored.payload) == (5, "en", b"\0x")
    assert "a" in client and "b" not in client
    assert client.query(FOX).total == 1 and client.query("three short words").total == 0
    assert client.query("a text of which nothing near is stored at all", nearest=1)[0].distance > 8
    assert client.submit("c", text_of(1)).result().is_new
    short = client.insert_if_new("d", "three short words")
    assert short.too_short and short.stored
    kept = client.insert_if_new("e", FOX, seen=5, repeats=3, keep=2)
    assert kept.is_duplicate and kept.stored
    assert not client.insert_if_new("f", FOX, seen=5, keep=2, touch=True).stored
    counts = [document.repeats for document in map(client.get, ["a", "e"]) if document is not None]
    assert sorted(counts) in ([0, 4], [1, 3])
    assert client.delete("e") is not None
    deleted = client.delete("c")
    assert deleted is not None and deleted.key == "c" and client.delete("c") is None
    assert client.delete_many(["c", "e", "nothing"]) == 0
    assert client.expire(before=6) == 1
    with pytest.raises(TypeError):
        client.expire()
    client.flush()
    assert client.fingerprinter().fingerprint(FOX) is not None
    client.close()
    client.close()
    assert client.closed
    with pytest.raises(simdb.ClosedError):
        client.get("a")


def test_many_documents_at_once(client: simdb.Client) -> None:
    documents = [(f"key {number}", text_of(number // 2)) for number in range(2_000)]
    verdicts = list(client.insert_many_if_new(iter(documents), batch=300))
    assert [verdict.is_new for verdict in verdicts] == [True, False] * 1_000
    with pytest.raises(simdb.InputError) as raised:
        list(client.insert_many_if_new([("x", text_of(5_000)), ("", text_of(5_001))]))
    assert raised.value.index == 1 and client.get("x") is None


@pytest.mark.parametrize("bad", [("b", 7), ("", FOX), ("k" * 5_000, FOX)], ids=["no sketch", "no key", "long key"])
def test_of_a_batch_with_a_bad_document_nothing_is_stored(client: simdb.Client, bad: Any) -> None:
    """Once the others were, beside a fingerprint without the sketch that the database wants."""
    with pytest.raises(simdb.InputError) as error:
        list(client.insert_many_if_new([("a", FOX), bad, ("c", text_of(3))]))
    assert error.value.index == 1
    assert "a" not in client and "c" not in client
    with pytest.raises(simdb.InputError):
        client.submit("b", fingerprint=7)


def test_an_error_of_the_owner_is_the_same_exception(client: simdb.Client) -> None:
    with pytest.raises(simdb.InputError, match="65"):
        client.query(FOX, max_distance=65)
    with pytest.raises(simdb.InputError):
        client.insert_if_new("a", FOX, scope="x" * 300)
    with pytest.raises(simdb.InputError):
        client.get("")


def test_a_ticket_of_a_client_can_be_awaited(client: simdb.Client) -> None:
    async def crawl() -> list[bool]:
        tickets = [client.submit(f"key {number}", text_of(number)) for number in range(50)]
        return [(await ticket).is_new for ticket in tickets]

    assert asyncio.run(crawl()) == [True] * 50


def test_whoever_asks_for_an_answer_gets_it(owner: Owner, client: simdb.Client) -> None:
    """A second task that waited for the same ticket was never woken."""

    async def wait_twice() -> list[bool]:
        owner.pause()
        ticket = client.submit("a", text_of(1))

        async def wait() -> bool:
            return (await ticket).is_new

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0.3)
        owner.resume()
        return await asyncio.wait_for(asyncio.gather(*tasks), 30)

    assert asyncio.run(wait_twice()) == [True] * 3


def test_a_client_that_only_looks_takes_what_has_come(client: simdb.Client) -> None:
    """An answer was taken in only by whoever waited for it."""
    ticket = client.submit("a", text_of(1))
    end = time.monotonic() + 30
    while not ticket.done():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert ticket.result(0).is_new


def test_nobody_who_serves_is_told(path: Path) -> None:
    with pytest.raises(simdb.NotServedError, match="simdb serve"):
        simdb.connect(path, timeout=0.1)
    with simdb.open(path, serve=True), simdb.connect(path) as client:
        assert client.insert_if_new("a", FOX).is_new
    with simdb.open(path) as database:
        assert "a" in database
        with pytest.raises(simdb.NotServedError):
            simdb.connect(path, timeout=0.1)
    assert issubclass(simdb.NotServedError, ConnectionError)


@pytest.mark.parametrize("timeout", [math.inf, 1e19, 1e300])
def test_a_client_may_wait_without_a_limit(path: Path, timeout: float) -> None:
    """Once the end of such a wait could not be computed, and that was a panic."""
    with simdb.open(path, serve=True), simdb.connect(path, timeout=timeout) as client:
        assert client.insert_if_new("a", FOX).is_new
    for wrong in (-1.0, math.nan):
        with pytest.raises(simdb.InputError):
            simdb.connect(path, timeout=wrong)


def test_a_client_outlives_a_fork_and_a_pickle(client: simdb.Client) -> None:
    client.insert_if_new("parent", FOX)
    ticket = client.submit("parent 2", text_of(1))

    def child() -> None:
        assert client.insert_if_new("child", FOX).is_duplicate
        assert client.insert_if_new("child 2", text_of(2)).is_new
        with pytest.raises(simdb.ForkedError):
            ticket.result()
        client.close()

    in_fork(child)
    assert ticket.result().is_new and "child 2" in client
    with pickle.loads(pickle.dumps(client)) as again:
        assert "child 2" in again


def test_an_owner_is_started_and_ends_when_nobody_is_connected(path: Path) -> None:
    owner = Owner(path, "--until-idle", "0.3", "--scheme", "external", "--max-distance", "3")
    with simdb.connect(path) as client:
        assert client.scheme == "external" and client.max_distance == 3
        time.sleep(0.6)
        assert client.insert_if_new("a", fingerprint=7).is_new
    assert owner.process.wait(30) == 0
    owner.kill()
    with simdb.open(path, create=False) as database:
        assert "a" in database


def test_a_second_owner_says_who_has_the_database(owner: Owner, path: Path) -> None:
    command = [sys.executable, "-m", "simdb", "serve", str(path)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert second.returncode == 2 and str(owner.process.pid) in second.stderr, second.stderr
    assert owner.end() == 0


def test_ctrl_c_ends_each_wait_for_an_owner_that_is_stopped(
    owner: Owner, path: Path, start: Start
) -> None:
    script = f"""
import os, threading, simdb
text = "one two three four five six seven eight nine ten"
path = {str(path)!r}
client = simdb.connect(path, timeout=600)
ticket = client.submit("before", text)
ticket.result()
calls = {{
    "insert_if_new": lambda: client.insert_if_new("a", text),
    "insert_many_if_new": lambda: list(client.insert_many_if_new([("a", text)])),
    "submit": lambda: client.submit("a", text).result(),
    "query": lambda: client.query(text),
    "get": lambda: client.get("a"),
    "in": lambda: "a" in client,
    "delete": lambda: client.delete("a"),
    "expire": lambda: client.expire(before=1),
    "flush": lambda: client.flush(),
    "connect": lambda: simdb.connect(path, timeout=600),
    "start": lambda: simdb.connect(path, timeout=600, start=True),
    "close": lambda: client.close(),
}}
print("ready", flush=True)
input()
# Another thread looks at its answer all the time, with the interpreter.
looked = client.submit("looked at", text)
threading.Thread(target=lambda: [looked.done() for _ in iter(int, 1)], daemon=True).start()
for name, call in calls.items():
    input()
    try:
        print("waits", name, flush=True)
        print("not ended", name, call(), flush=True)
    except KeyboardInterrupt:
        print("ended", name, flush=True)
os._exit(0)
"""
    waiting = start("-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert waiting.stdin is not None and waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    owner.pause()
    waiting.stdin.write("\n")
    ended = []
    while True:
        waiting.stdin.write("\n")
        waiting.stdin.flush()
        line = waiting.stdout.readline()
        name = line.removeprefix("waits ").strip()
        assert line == f"waits {name}\n"
        time.sleep(0.2)
        begun = time.monotonic()
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.readline() == f"ended {name}\n"
        assert time.monotonic() - begun < 10
        ended.append(name)
        if name == "close":
            break
    assert len(ended) == 12
    waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    owner.resume()


def test_ctrl_c_ends_the_wait_for_an_owner_that_is_gone(
    owner: Owner, path: Path, start: Start
) -> None:
    script = f"""
import os, simdb
client = simdb.connect({str(path)!r}, timeout=600)
print("ready", flush=True)
input()
try:
    print("waits", flush=True)
    client.insert_if_new("a", "one two three four five six seven eight nine ten")
except KeyboardInterrupt:
    print("ended", flush=True)
    os._exit(0)
"""
    waiting = start("-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert waiting.stdin is not None and waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    owner.kill()
    waiting.stdin.write("\n")
    waiting.stdin.flush()
    assert waiting.stdout.readline() == "waits\n"
    time.sleep(0.5)
    waiting.send_signal(signal.SIGINT)
    assert waiting.stdout.readline() == "ended\n"
    waiting.communicate(timeout=30)
    assert waiting.returncode == 0


def _twins(path: Path, process: int) -> int:
    with simdb.connect(path, timeout=30, start=True) as client:
        new = 0
        for twin in range(40):
            for copy in range(2):
                text = text_of(twin) + f" copy{process * 2 + copy}"
                new += client.insert_if_new(f"{process} {copy} {twin}", text).is_new
        return new


def test_of_near_twins_in_eight_processes_exactly_one_is_new(started: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        new = pool.starmap(_twins, [(started, process) for process in range(8)])
    assert sum(new) == 40


def _insert_for_a_while(path: Path, process: int, seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    answered: list[str] = []
    with simdb.connect(path, timeout=30, start=True) as client:
        for number in range(1_000_000):
            if time.monotonic() > end:
                return answered
            key = f"{process} {number}"
            verdict = client.insert_if_new(key, text_of(process * 1_000_000 + number))
            assert verdict.is_new, (key, verdict)
            answered.append(key)
    return answered


def test_random_kills_of_owner_and_clients_lose_nothing_that_was_answered(started: Path) -> None:
    seconds = float(os.environ.get("SIMDB_KILL_SECONDS", "6"))
    seed = int(os.environ.get("SIMDB_SEED", random.randrange(1 << 32)))
    print(f"SIMDB_SEED={seed}")
    chance = random.Random(seed)
    context = multiprocessing.get_context("spawn")
    victim = context.Process(target=_insert_for_a_while, args=(started, 9, 600), daemon=True)
    victim.start()
    kills = 0
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=context) as pool:
        running = [pool.submit(_insert_for_a_while, started, process, seconds) for process in range(4)]
        while not all(future.done() for future in running):
            time.sleep(chance.uniform(0.2, 1.0))
            if chance.random() < 0.3:
                victim.kill()
                victim.join(30)
                arguments = (started, 10 + kills, 600)
                victim = context.Process(target=_insert_for_a_while, args=arguments, daemon=True)
                victim.start()
            try:
                os.kill(simdb_cli(started, "SIM.INFO")["process"], signal.SIGKILL)
                kills += 1
            except (OSError, ConnectionError):
                continue
        answered = [key for future in running for key in future.result()]
    victim.kill()
    victim.join(30)
    assert kills >= 2 and len(answered) > 20
    with simdb.connect(started, timeout=30, start=True) as client:
        missing = [key for key in answered if key not in client]
    assert missing == []


@pytest.fixture
def bits_owner(path: Path) -> Iterator[Owner]:
    """Serves ready fingerprints."""
    owner = Owner(path, "--scheme", "external", "--max-distance", "3")
    yield owner
    owner.kill()


def test_redis_py_connects_unchanged(bits_owner: Owner, path: Path) -> None:
    for protocol in (2, 3):
        with redis.Redis(
            unix_socket_path=f"{path}.sock", decode_responses=True, protocol=protocol, client_name="test"
        ) as connection:
            assert connection.ping()
            fingerprint = f"{protocol:016x}"
            answer = connection.execute_command(
                "SIM.ADD", f"key {protocol}", fingerprint, "ONMATCH", "link", "SCOPE", "straße"
            )
            verdict = as_map(answer)
            assert verdict["change"] == "inserted" and verdict["total"] == protocol - 2
            pipeline = connection.pipeline(transaction=False)
            for number in range(100):
                pipeline.execute_command("SIM.GET", f"key {number % 4}")
            found = pipeline.execute()
            assert len(found) == 100 and found[0] is None and found[2] is not None
            with pytest.raises(redis.ResponseError, match="unknown command 'SET'"):
                connection.set("a", "b")
            with pytest.raises(redis.ResponseError, match="65"):
                connection.execute_command("SIM.QUERY", fingerprint, "DISTANCE", "65")


def test_redis_cli_connects_unchanged(bits_owner: Owner, path: Path) -> None:
    program = shutil.which("redis-cli")
    if program is None:
        pytest.skip("there is no redis-cli")

    def say(*words: str) -> str:
        command = [program, "-s", f"{path}.sock", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    assert say("PING") == "PONG\n"
    assert say("SIM.ADD", "a", "00000000000000ff").startswith("change\ninserted\n")
    assert "matches" in say("SIM.QUERY", "00000000000000fe")
    assert "unknown command" in say("SET", "a", "b")
    assert say("-3", "SIM.GET", "b") == "\n"


def test_signals_that_come_all_the_time_make_no_wait_longer(owner: Owner, path: Path, start: Start) -> None:
    script = f"""
import signal, simdb
client = simdb.connect({str(path)!r}, timeout=0.5)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
print("ready", flush=True)
input()
text = "one two three four five six seven eight nine ten"
for wait in (lambda: simdb.connect({str(path)!r}, timeout=0.5), lambda: client.insert_if_new("a", text)):
    try:
        wait()
    except simdb.NotServedError:
        print("ended", flush=True)
"""
    waiting = start("-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    owner.pause()
    told, _ = waiting.communicate("\n", timeout=30)
    assert told == "ended\nended\n"


APPLICATION = """
import json
import os
import simdb

client = simdb.connect(os.environ["SIMDB_PATH"], timeout=30, start=True)


def application(environment, start_response):
    text = environment["wsgi.input"].read().decode()
    verdict = client.insert_if_new(environment["PATH_INFO"], text)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([os.getpid(), verdict.is_new]).encode()]
"""


def test_gunicorn_workers_share_a_database(
    started: Path, tmp_path: Path, start: Start
) -> None:
    pytest.importorskip("gunicorn")
    (tmp_path / "web.py").write_text(APPLICATION)
    # The application is loaded before the workers are forked: each of them connects anew.
    options = ["--preload", "--workers", "4", "--bind", "127.0.0.1:0"]
    environment = {**os.environ, "SIMDB_PATH": str(started)}
    server = start(
        "-m", "gunicorn", *options, "web:application", cwd=tmp_path, env=environment, stderr=subprocess.PIPE
    )
    try:
        assert server.stderr is not None
        line = next(line for line in server.stderr if "Listening at: " in line)
        address = line.split("Listening at: ")[1].split()[0]

        def post(number: int) -> tuple[int, bool]:
            request = urllib.request.Request(f"{address}/{number}", data=text_of(number // 2).encode())
            with urllib.request.urlopen(request, timeout=60) as response:
                process, is_new = json.load(response)
                return process, is_new

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(post, range(200)))
        assert sum(is_new for _, is_new in answers) == 100
        assert len({process for process, _ in answers}) > 1
    finally:
        server.terminate()
        server.communicate(timeout=30)


def _is_new(batch: dict[str, list[Any]], path: str) -> list[bool]:
    with simdb.connect(path, timeout=30, start=True) as client:
        verdicts = client.insert_many_if_new(zip(batch["id"], batch["text"], strict=True))
        return [verdict.is_new for verdict in verdicts]


def test_datasets_filter_in_many_processes(started: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"id": [str(number) for number in range(400)], "text": [text_of(number // 2) for number in range(400)]}
    kept = datasets.Dataset.from_dict(rows).filter(
        _is_new, batched=True, batch_size=50, num_proc=4, fn_kwargs={"path": str(started)}
    )
    assert len(kept) == 200


SPIDERS = """
import json, scrapy, sys
from scrapy.crawler import CrawlerProcess

pages, settings = json.loads(sys.argv[1])


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for key, text in pages:
            yield {"url": key, "text": text}


process = CrawlerProcess({
    "ADDONS": {"simdb.scrapy.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    **settings,
})
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(json.dumps(crawler.stats.get_value("simdb/new", 0)))
"""


def test_scrapy_in_eight_processes_shares_a_database(started: Path, start: Start) -> None:
    pytest.importorskip("scrapy")
    settings = {"SIMDB_PATH": str(started), "SIMDB_SHARED": True}
    crawls = []
    for process in range(8):
        # Each page is met by two crawls.
        pages = [[f"{process} {number}", text_of((process * 25 + number) % 200)] for number in range(50)]
        arguments = json.dumps([pages, settings])
        crawls.append(start("-c", SPIDERS, arguments, stdout=subprocess.PIPE))
    new = [json.loads(crawl.communicate(timeout=120)[0]) for crawl in crawls]
    assert sum(new) == 200


# The client of a process of a pool.
_here: simdb.Client


def _connect_here(path: str) -> None:
    global _here
    _here = simdb.connect(path, timeout=30)


def _submit_here(number: int) -> None:
    _here.submit(f"p{number}", text_of(number), on_match="link", payload=b"x" * 1000)


def _submit_all(numbers: range) -> None:
    for number in numbers:
        _submit_here(number)


def test_what_processes_of_a_pool_have_submitted_is_stored_when_they_end(owner: Owner, path: Path) -> None:
    context = multiprocessing.get_context("fork")
    pool = context.Pool(2, initializer=_connect_here, initargs=(str(path),))
    pool.map(_submit_here, range(2000))
    pool.close()
    pool.join()
    with simdb.connect(path, timeout=30) as client:
        assert sum(client.get(f"p{number}") is not None for number in range(2000)) == 2000
    # Also with a client that was there before the process.
    _connect_here(str(path))
    process = context.Process(target=_submit_all, args=(range(2000, 4000),))
    process.start()
    process.join()
    assert process.exitcode == 0
    with simdb.connect(path, timeout=30) as client:
        assert sum(client.get(f"p{number}") is not None for number in range(2000, 4000)) == 2000
    _here.close()


def test_a_client_stays_at_its_database_wherever_the_process_goes(
    owner: Owner, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(path.parent)
    with simdb.connect(path.name, timeout=30) as client:
        monkeypatch.chdir(other)
        client.insert_if_new("a", FOX)
        again = pickle.loads(pickle.dumps(client))
        assert again.get("a") is not None

        def is_there() -> None:
            assert client.get("a") is not None

        in_fork(is_there)
