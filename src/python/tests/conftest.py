"""What the tests share."""

from __future__ import annotations

import contextlib
import gzip
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import simdb

DATA = Path(__file__).parents[3] / "tests" / "data"

FOX = (
    "the quick brown fox jumps over the lazy dog, and then it runs away into the deep dark wood, "
    "where nobody has seen it since the day on which the hunters came"
)


def text_of(number: int) -> str:
    """A text that is far from those of other numbers."""
    return " ".join(f"word{number * 7919 + place}" for place in range(40))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "seen.simdb"


@pytest.fixture
def db(path: Path) -> Iterator[simdb.Database]:
    with simdb.open(path) as database:
        yield database


@pytest.fixture
def bits(tmp_path: Path) -> Iterator[simdb.Database]:
    """A database of ready fingerprints."""
    with simdb.open(tmp_path / "bits.simdb", scheme="external", max_distance=3) as database:
        yield database


@pytest.fixture(scope="session")
def pages() -> list[dict[str, Any]]:
    """Real pages of a manual, in three releases."""
    with gzip.open(DATA / "pg-docs-html" / "docs.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python with these arguments. Whatever becomes of the test, the process ends with it."""
    with contextlib.ExitStack() as processes:

        def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
            command = [sys.executable, *arguments]
            process = processes.enter_context(subprocess.Popen(command, text=True, **options))
            processes.callback(process.kill)
            return process

        yield start


def in_fork(work: Callable[[], None]) -> None:
    """Runs some work in a process that is forked from this one. Its assertions count."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_ends, args=(work,))
    process.start()
    process.join(30)
    if process.is_alive():
        process.kill()
        pytest.fail("the forked process hangs")
    assert process.exitcode == 0


def _ends(work: Callable[[], None]) -> None:
    try:
        work()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)
