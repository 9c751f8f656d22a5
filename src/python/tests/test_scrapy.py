"""The pipeline for Scrapy, on real pages of a local server."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import simdb
from conftest import Start

pytest.importorskip("scrapy")

Crawl = Callable[[list[str], Path, dict[str, Any]], subprocess.Popen[str]]

SPIDER = '''
import json, scrapy, sys
from scrapy.crawler import CrawlerProcess

urls, output, settings = json.loads(sys.argv[1])


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for url in urls:
            yield scrapy.Request(url)

    def parse(self, response):
        yield {"url": response.url, "html": response.body}


class Output:
    """Notes what is passed on, before anything else can happen to it."""

    def process_item(self, item):
        with open(output, "a") as lines:
            lines.write(json.dumps([item["url"], item.get("nearest")]) + "\\n")
        print("item", flush=True)
        return item


process = CrawlerProcess({
    "ADDONS": {"simdb.scrapy.Addon": 500},
    "ITEM_PIPELINES": {Output: 900},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    **settings,
})
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(json.dumps({key: value for key, value in crawler.stats.get_stats().items() if key.startswith(("simdb/", "item_"))}))
'''


@pytest.fixture(scope="module")
def urls(pages: list[dict[str, Any]]) -> Iterator[list[str]]:
    bodies = {f"/{page['id']}": page["html"].encode() for page in pages}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield [f"http://127.0.0.1:{server.server_port}{path}" for path in bodies]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def crawl(start: Start) -> Crawl:
    def crawl(urls: list[str], output: Path, settings: dict[str, Any]) -> subprocess.Popen[str]:
        arguments = json.dumps([urls, str(output), settings])
        return start("-c", SPIDER, arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return crawl


def finished(process: subprocess.Popen[str]) -> dict[str, int]:
    """Waits for a crawl, and gives its counts."""
    told, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and not errors, errors
    counts: dict[str, int] = json.loads(told.splitlines()[-1])
    return counts


def passed_on(output: Path) -> list[str]:
    return [json.loads(line)[0] for line in output.read_text().splitlines()]


def test_near_duplicates_are_dropped_and_counted(
    urls: list[str], tmp_path: Path, crawl: Crawl
) -> None:
    output = tmp_path / "items"
    counts = finished(crawl(urls, output, {"JOBDIR": str(tmp_path / "job")}))
    kept = passed_on(output)
    assert counts["simdb/new"] == len(kept) == counts["item_scraped_count"]
    assert counts["simdb/duplicates"] == counts["item_dropped_count"] == len(urls) - len(kept)
    assert 100 < len(kept) < 200
    with simdb.open(tmp_path / "job" / "seen.simdb", create=False) as database:
        assert {document.key for document in database.snapshot()} == set(kept)


def test_with_link_all_are_passed_on_and_the_nearest_is_named(
    urls: list[str], tmp_path: Path, crawl: Crawl
) -> None:
    output = tmp_path / "items"
    settings = {
        "SIMDB_PATH": str(tmp_path / "folder" / "a.simdb"),
        "SIMDB_ON_MATCH": "link",
        "SIMDB_NEAREST_FIELD": "nearest",
        "SIMDB_MAX_DISTANCE": 3,
        "SIMDB_MIN_SIMILARITY": 0.9,
    }
    counts = finished(crawl(urls, output, settings))
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(lines) == len(urls) and counts["simdb/duplicates"] == sum(nearest is not None for _, nearest in lines)
    assert all(nearest in urls for _, nearest in lines if nearest is not None)


def test_a_crawl_that_is_killed_goes_on_and_loses_and_drops_nothing_falsely(
    urls: list[str], tmp_path: Path, crawl: Crawl
) -> None:
    output, path = tmp_path / "items", tmp_path / "seen.simdb"
    settings = {"SIMDB_PATH": str(path)}
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(10):
        child = crawl(urls, output, settings)
        assert child.stdout is not None and child.stderr is not None
        for _ in range(rng.randrange(1, 60)):
            child.stdout.readline()
        child.kill()
        child.communicate()
    counts = finished(crawl(urls, output, settings))
    kept = set(passed_on(output))
    assert counts["simdb/new"] + counts["simdb/duplicates"] == len(urls)
    with simdb.open(path, create=False) as database:
        assert database.check() == []
        stored = {document.key for document in database.snapshot()}
        # Nothing is lost: what is stored was passed on, at the latest when it came again.
        assert stored == kept
        for url in urls:
            if url in stored:
                continue
            # Nothing is dropped falsely: what is not there is near to something that is.
            page = next(page for page in _pages(url) if page is not None)
            assert database.query(html=page).total > 0, url


def _pages(url: str) -> Iterator[bytes]:
    from urllib.request import urlopen

    with urlopen(url) as response:
        yield response.read()


def test_items_without_text_are_passed_on(tmp_path: Path) -> None:
    import asyncio

    from scrapy.utils.test import get_crawler

    from simdb.scrapy import Pipeline

    async def process() -> None:
        pipeline = Pipeline.from_crawler(get_crawler(settings_dict={"SIMDB_PATH": str(tmp_path / "a.simdb")}))
        pipeline.database = simdb.open(pipeline.path)
        for item in ({"url": "a"}, {"text": "x"}, {"url": "", "text": "x"}, {"url": "b", "text": "too short"}):
            assert await pipeline.process_item(item) == item
        pipeline.close_spider()

    asyncio.run(process())


def test_a_blank_text_hides_no_page_and_numbers_are_keys(tmp_path: Path) -> None:
    import asyncio

    from scrapy.exceptions import DropItem
    from scrapy.utils.test import get_crawler

    from simdb.scrapy import Pipeline

    page = f"<p>{' '.join(f'word{number}' for number in range(40))}"

    async def process() -> None:
        settings = {"SIMDB_PATH": str(tmp_path / "a.simdb"), "SIMDB_KEY_FIELD": "id"}
        pipeline = Pipeline.from_crawler(get_crawler(settings_dict=settings))
        pipeline.database = simdb.open(pipeline.path)
        first = {"id": 0, "text": "", "html": page}
        assert await pipeline.process_item(first) == first
        for number, text in enumerate(["", " \n", None]):
            with pytest.raises(DropItem, match="nearly 0"):
                await pipeline.process_item({"id": number + 1, "text": text, "html": page})
        pipeline.close_spider()

    asyncio.run(process())
