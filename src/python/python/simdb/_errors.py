"""What goes wrong in simdb. The message says what to do."""


class Error(Exception):
    """What goes wrong in simdb. The message says what to do."""

    def __reduce__(self) -> tuple[type, tuple[object, ...], dict[str, object]]:
        # The number of the system's error is beside what an exception is pickled as.
        state = dict(self.__dict__)
        if isinstance(self, OSError):
            state["errno"] = self.errno
        return type(self), self.args, state


class InputError(Error, ValueError):
    """What was given is out of bounds, or does not fit to the database.

    ``index`` is the place of the bad document or text among many, or None.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class NotFoundError(Error, FileNotFoundError):
    """No database is at the path."""


class ExistsError(Error, FileExistsError):
    """Something is at the path already."""


class BusyError(Error):
    """Another process or handle has the file open, or snapshots are open.

    ``process`` is the number of the process that has it open, if the system tells.
    """

    def __init__(self, message: str, process: int | None = None) -> None:
        super().__init__(message)
        self.process = process


class ClosedError(Error, ValueError):
    """It was closed."""


class ForkedError(ClosedError):
    """It was opened by the process that this one was forked from. Open it here."""


class NotServedError(Error, ConnectionError):
    """Nobody serves the database, or whoever does does not answer.

    What was not answered may be stored or not. It can be submitted again.
    """


class ReadOnlyError(Error, PermissionError):
    """The database was opened to read only."""


class DamagedError(Error):
    """The file is damaged, of another release, or no database."""


class StorageError(Error, OSError):
    """The system refused: the disk is full or fails, a right is missing. What was answered is safe."""


class OutcomeUnknownError(StorageError):
    """A commit failed, and it is not known whether it is in the file.

    ``Database.reopen``, or a new opening, finds out.
    """


for _class in (
    Error, InputError, NotFoundError, ExistsError, BusyError, ClosedError, ForkedError, NotServedError, ReadOnlyError,
    DamagedError, StorageError, OutcomeUnknownError,
):
    _class.__module__ = "simdb"
del _class
