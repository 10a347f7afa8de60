"""What the commands print: results to standard output, progress to standard error."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Escapes control characters in model output and file names before they reach the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def show(text: str) -> None:
    """Write a result, whatever the encoding of the output."""
    encoding = sys.stdout.encoding or "utf-8"  # a file or pipe may use an encoding without τ
    sys.stdout.write(printable(text).encode(encoding, "replace").decode(encoding) + "\n")


def show_progress(text: str) -> None:
    """Rewrites one line on standard error, if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{printable(text)}")
        sys.stderr.flush()


def report_bad_input(error: ValueError) -> int:
    """Write the sentence of ``error`` in place of the progress and return the exit status."""
    show_progress("")
    sys.stderr.write(printable(f"{error}\n"))
    return 2
