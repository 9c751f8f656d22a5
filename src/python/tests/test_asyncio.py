"""Tickets: in tasks, in threads, with limits of time."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import simdb
from conftest import FOX, in_fork, text_of


def test_tickets_are_awaited(db: simdb.Database) -> None:
    async def crawl() -> list[simdb.Verdict]:
        return await asyncio.gather(*(db.submit(str(number), text_of(number % 300)) for number in range(1_000)))

    verdicts = asyncio.run(crawl())
    assert [verdict.is_new for verdict in verdicts] == [number < 300 for number in range(1_000)]


def test_a_ticket_may_be_awaited_again_and_asked_in_a_thread(db: simdb.Database) -> None:
    async def both() -> None:
        ticket = db.submit("a", FOX)
        first, second = await asyncio.gather(ticket, ticket)
        assert first == second == await ticket == await asyncio.to_thread(ticket.result)
        assert ticket.done()

    asyncio.run(both())


async def _told(ticket: simdb.Ticket) -> simdb.Verdict:
    async with asyncio.timeout(20):
        return await ticket


def test_all_tasks_that_wait_for_one_ticket_are_told(db: simdb.Database) -> None:
    """Once only the task that had asked last was told, and the others waited for ever. `gather` does not show that: it
    asks once for what it is given twice."""

    async def together(ticket: simdb.Ticket) -> list[simdb.Verdict]:
        cancelled = asyncio.create_task(_told(ticket))
        tasks = [asyncio.create_task(_told(ticket)) for _ in range(3)]
        await asyncio.sleep(0)
        cancelled.cancel()
        return await asyncio.gather(*tasks)

    for number in range(20):
        ticket = db.submit(str(number), text_of(number))
        # In three loops at once.
        with ThreadPoolExecutor(3) as threads:
            told = list(threads.map(lambda _: asyncio.run(together(ticket)), range(3)))
        assert told == [[ticket.result()] * 3] * 3


def test_a_task_that_is_cancelled_has_stored_its_document(db: simdb.Database) -> None:
    async def cancelled() -> None:
        async def wait() -> None:
            await db.submit("a", FOX)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            assert (await db.submit("b", FOX)).is_duplicate

    asyncio.run(cancelled())
    assert "a" in db


def test_the_loop_goes_on_while_tickets_are_open(db: simdb.Database) -> None:
    async def crawl() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        for number in range(50):
            await db.submit(str(number), text_of(number))
        ticking.cancel()
        return ticks

    assert asyncio.run(crawl()) > 50


def test_several_loops_after_each_other_and_at_once(db: simdb.Database) -> None:
    failed: list[BaseException] = []

    async def crawl(name: str) -> None:
        for number in range(30):
            await db.submit(f"{name} {number}", text_of(number))

    def thread(name: str) -> None:
        try:
            asyncio.run(crawl(name))
        except BaseException as error:
            failed.append(error)

    for _ in range(3):
        asyncio.run(crawl("main"))
        gc.collect()
    threads = [threading.Thread(target=thread, args=(str(number),)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed and len(db) == 30


def test_an_error_comes_where_it_is_awaited(path: Path) -> None:
    async def late() -> None:
        db = simdb.open(path)
        assert (await db.submit("a", FOX)).is_new
        db.close()
        with pytest.raises(simdb.ClosedError):
            await db.submit("b", FOX)

    asyncio.run(late())


def test_a_result_can_be_waited_for_with_a_limit(db: simdb.Database) -> None:
    ticket = db.submit("a", FOX)
    assert ticket.result(timeout=30).is_new
    assert ticket.result(0) == ticket.result() and ticket.done()
    assert "answered" in repr(ticket)


def test_a_limit_of_time_ends_the_wait_and_not_the_submission(db: simdb.Database) -> None:
    timeouts = 0
    for number in range(100):
        ticket = db.submit(str(number), text_of(number))
        while True:
            try:
                # A commit takes longer, unless this thread had to wait just now.
                assert ticket.result(timeout=0).is_new
                break
            except TimeoutError:
                timeouts += 1
                time.sleep(0.001)
    assert timeouts > 0 and len(db) == 100


def test_a_ticket_is_refused_in_a_forked_process(db: simdb.Database) -> None:
    ticket = db.submit("a", FOX)

    def child() -> None:
        for call in (ticket.result, ticket.done, lambda: asyncio.run(_await(ticket))):
            with pytest.raises(simdb.ForkedError):
                call()

    in_fork(child)
    assert ticket.result().is_new


async def _await(ticket: simdb.Ticket) -> simdb.Verdict:
    return await ticket
