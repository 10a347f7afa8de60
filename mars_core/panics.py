"""Panics of native libraries (pyo3's ``PanicException``: a tokenizer's regular expression, say),
which are no ``Exception``."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 240  # characters


class Panic(ValueError):
    """A native library gave up on a value: one sentence."""


@contextmanager
def contained() -> Iterator[None]:
    """Let what is raised within it be an ``Exception``, or ends the program, the generator or the
    task: a panic becomes Panic, so that handlers of errors handle it too."""
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit, CancelledError):
        raise
    except BaseException as error:
        message = " ".join(str(error).split())[:_LONGEST].rstrip(".")
        raise Panic(f"A library of the models broke: {message or type(error).__name__}.") from error
