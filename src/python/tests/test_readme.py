"""The programs of the README do what it says."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_prints_what_the_readme_shows(program: str, printed: str, tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (printed, "")
    if "start=True" in program:
        # It would end by itself a minute later.
        with open_socket(tmp_path / "seen.simdb.sock") as stream:
            stream.sendall(b"*1\r\n$8\r\nSIM.INFO\r\n")
            process = re.search(rb"process\r\n:(\d+)", stream.recv(4096))
        assert process is not None
        os.kill(int(process[1]), signal.SIGTERM)


def open_socket(path: Path) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    opened.connect(str(path))
    return opened


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 6
