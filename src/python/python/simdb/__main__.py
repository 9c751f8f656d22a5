"""``python -m simdb serve PATH``: opens a database for other processes."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

import simdb


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simdb")
    verbs = parser.add_subparsers(required=True)
    serve = verbs.add_parser("serve", help="open or create a database, and serve it to other processes")
    serve.add_argument("path", type=Path, help="the database; created if it does not exist")
    serve.add_argument(
        "--until-idle", type=float, metavar="SECONDS", help="end when nobody was connected for so long"
    )
    new = serve.add_argument_group("what a new database is created with; one that is there has to have the same")
    new.add_argument("--scheme")
    new.add_argument("--max-distance", type=int)
    new.add_argument("--min-similarity", type=float)
    new.add_argument("--sketch", type=int, choices=(0, 16, 32), metavar="BYTES", dest="sketch_bytes")
    new.add_argument("--expect", type=int, metavar="DOCUMENTS", dest="expected_documents")
    new.add_argument("--plan")
    chosen = vars(parser.parse_args())
    path, until_idle = chosen.pop("path"), chosen.pop("until_idle")

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    try:
        with simdb.open(path, **chosen) as database:
            database._serve_until(until_idle, _say_ready)
    except simdb.Error as error:
        print(f"simdb: {error}", file=sys.stderr)
        return 2
    return 0


def _say_ready(socket: Path) -> None:
    print(f"simdb: serves at {socket}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
