"""The one place through which the commands write: answers to standard output, what goes on to standard error."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def line(text: str) -> str:
    """A name as one short line that a terminal takes as nothing but text."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:80]
