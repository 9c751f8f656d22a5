"""Closes databases and clients that are open when the process ends. So what was submitted is stored."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

from ._simdb import Client, Database

_open: weakref.WeakSet[Database | Client] = weakref.WeakSet()

# The process that closes them at its end.
_closes_in = 0
_knows_forks = False


def close_at_exit(handle: Database | Client) -> None:
    _open.add(handle)
    _close_with_multiprocessing()


def _close_all() -> None:
    # A process that was forked has none of its own, or has opened them itself.
    for handle in list(_open):
        try:
            handle.close()
        except Exception:
            # Who wants to know of an error closes it, or flushes.
            pass


def _close_with_multiprocessing(_: object = None) -> None:
    """Processes of multiprocessing end without atexit."""
    global _closes_in
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _closes_in != os.getpid():
        _closes_in = os.getpid()
        util.Finalize(None, _close_all, exitpriority=0)


def _before_fork() -> None:
    """What is to be done at the end is forgotten in the new process, and has to be said there again."""
    global _knows_forks
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _knows_forks:
        _knows_forks = True
        util.register_after_fork(_close_all, _close_with_multiprocessing)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
