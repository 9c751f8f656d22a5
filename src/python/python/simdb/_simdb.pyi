# The part of the package that is written in Rust. What is for users is described in __init__.pyi.

import os
from collections.abc import Sequence
from typing import final

from . import Client as Client
from . import Cluster as Cluster
from . import Database as Database
from . import Document as Document
from . import Fingerprinter as Fingerprinter
from . import Match as Match
from . import Matches as Matches
from . import Pair as Pair
from . import Snapshot as Snapshot
from . import Ticket as Ticket
from . import Verdict as Verdict
from . import __version__ as __version__
from . import audit as audit
from . import dedup as dedup
from . import distance as distance
from . import duplicates as duplicates
from . import open as open

def _connect(path: str | os.PathLike[str], timeout: float, start: Sequence[str]) -> Client: ...
@final
class _Wakers:
    def __new__(cls, descriptor: int) -> _Wakers: ...
    def take(self) -> list[int]: ...
