"""Tickets in asyncio. The thread that answers writes a byte into a socket, which the loop of the task reads."""

from __future__ import annotations

import asyncio
import itertools
import socket
import weakref
from typing import cast

from ._simdb import Ticket, Verdict, _Wakers


class _Waiting:
    """The tickets that the tasks of one loop wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._wakers = _Wakers(self._write.fileno())
        self._numbers = itertools.count()
        self._futures: dict[int, asyncio.Future[None]] = {}
        # The loop keeps the socket, but not this, which would keep the loop.
        loop.add_reader(self._read, _wake, cast("weakref.ref[_Waiting]", weakref.ref(self)))

    async def wait(self, loop: asyncio.AbstractEventLoop, ticket: Ticket) -> None:
        number = next(self._numbers)
        future = self._futures[number] = loop.create_future()
        try:
            if not ticket._given_or_wakes(self._wakers, number):
                await future
        finally:
            del self._futures[number]

    def wake(self) -> None:
        try:
            while self._read.recv(4096):
                pass
        except (BlockingIOError, InterruptedError):
            pass
        for number in self._wakers.take():
            future = self._futures.get(number)
            if future is not None and not future.done():
                future.set_result(None)

    def __del__(self) -> None:
        self._read.close()
        self._write.close()


def _wake(this: weakref.ref[_Waiting]) -> None:
    waiting = this()
    if waiting is not None:
        waiting.wake()


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()


async def answer(ticket: Ticket) -> Verdict:
    """The verdict of a ticket, without a thread that waits for it."""
    loop = asyncio.get_running_loop()
    if ticket._needs_thread():
        return await loop.run_in_executor(None, ticket.result)
    waiting = _of_loop.get(loop)
    if waiting is None:
        waiting = _of_loop[loop] = _Waiting(loop)
    while not ticket.done():
        await waiting.wait(loop, ticket)
    return ticket.result()
