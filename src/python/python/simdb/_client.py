"""Connecting to the process that serves a database."""

from __future__ import annotations

import os
import sys

from ._simdb import Client, _connect

# Nobody is connected for so many seconds before a process ends that was started.
_IDLE_SECONDS = 60


def connect(path: str | os.PathLike[str], *, timeout: float = 5.0, start: bool = False) -> Client:
    """Connects to the process that has a database open and serves it.

    With `start`, one is started if there is none: `python -P -m simdb serve --until-idle 60`. Waits up to `timeout`
    seconds for it, then raises NotServedError.
    """
    command: list[str] = []
    if start:
        # Nothing of the working directory is to run.
        command = [sys.executable, "-P", "-m", "simdb", "serve", "--until-idle", str(_IDLE_SECONDS)]
    return _connect(os.fspath(path), float(timeout), command)
