"""The errors of storage, and the conversion of database errors to one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from sqlite3 import Error as SqliteError

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

_ADVICE = (
    ("disk is full", "Free some space and try again."),
    ("disk i/o error", "Check the space and the health of the disk, then try again."),
    ("database is locked", "Another program is writing to it; try again when it has finished."),
    ("lock timeout", "Another program is writing to it; try again when it has finished."),
    ("readonly database", "Make the file and its folder writable."),
    (
        "unable to open database file",
        "Check that the path names a file in a folder that may be written to.",
    ),
    ("no locks available", "Move it to a file system with locks, such as that of a local disk."),
    ("malformed", "The file is damaged: move it away or restore a backup."),
    ("permission denied", "Make the file and its folder writable."),
    ("not a database", "Move the file away or choose another one."),
)


class StorageError(RuntimeError):
    """Something could not be stored or read. The message is one or two sentences for the user."""


# What columns and traces raise for a value that is not theirs.
UNREADABLE = (LookupError, TypeError, ValueError)


def is_damage(error: Exception) -> bool:
    """Return whether a row could not be read because of what is stored in it."""
    cause = error.__cause__ if isinstance(error, StorageError) else error
    return isinstance(cause, UNREADABLE) and not isinstance(cause, KeyError | IndexError)


class ResultExists(StorageError):
    """Another process has saved a result of this lane; nothing was saved."""


@contextmanager
def explained(action: str, location: str) -> Iterator[None]:
    """Convert database errors to StorageError: ``action`` (what failed), reason, location, what to
    do."""
    try:
        yield
    except (
        SQLAlchemyError,
        SqliteError,
        JSONDecodeError,
        UnicodeError,
        OverflowError,
        LookupError,
        OSError,
    ) as error:
        if isinstance(
            error, KeyError | IndexError
        ):  # a programming error; an unknown Enum value raises ValueError
            raise
        reason = _reason(error)
        advice = next((text for sign, text in _ADVICE if sign in reason.lower()), "")
        raise StorageError(f"{action}: {reason} ({location}). {advice}".rstrip()) from error


def _reason(error: Exception) -> str:
    """Return the first line of the driver's message, because SQLAlchemy's contains the statement
    and stored texts."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    line = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
    return line.encode("utf-8", "backslashreplace").decode()  # of a text that is not UTF-8
