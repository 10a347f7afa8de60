"""The errors of huggingface_hub in one sentence each, without addresses or tokens. Knows no kind of place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import HfHubHTTPError

from hosting.backup.remote import RemoteChanged, RemoteError, RemoteRefused


@contextmanager
def spoken(place: str) -> Iterator[None]:
    """Turn whatever goes wrong inside into a RemoteError."""
    try:
        yield
    except RemoteError:
        raise
    except Exception as error:  # hf_xet and the HTTP client have errors of many kinds
        raise _named(error, place) from error


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status that an error comes from, None for another cause."""
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            return int(error.response.status_code)
        error = error.__cause__
    return None


def _named(error: Exception, place: str) -> RemoteError:
    status = status_of(error)
    if status in (401, 403):
        return RemoteRefused(f"The token may not read and write {place} (HTTP {status}).")
    if status in (409, 412):
        return RemoteChanged(f"Somebody else wrote to {place} meanwhile (HTTP {status}).")
    if status is not None:
        return RemoteError(f"{place} answered with HTTP {status}.")
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return RemoteError(f"A file of the backup could not be written or read here: {error.strerror}.")
    return RemoteError(f"{place} could not be reached ({type(error).__name__}).")
