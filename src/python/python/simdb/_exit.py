"""Closes databases that are open when the interpreter ends. So what was submitted is stored."""

from __future__ import annotations

import atexit
import weakref

from ._simdb import Database

_open: weakref.WeakSet[Database] = weakref.WeakSet()


def close_at_exit(database: Database) -> None:
    _open.add(database)


def _close_all() -> None:
    # A process that was forked has none of its own, or has opened them itself.
    for database in list(_open):
        try:
            database.close()
        except Exception:
            # Who wants to know of an error closes it, or flushes.
            pass


atexit.register(_close_all)
