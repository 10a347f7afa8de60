"""What the commands print: results to standard output, progress to standard error."""

from __future__ import annotations

import sys

from display.format import displayable
from evaluation.progress import show_progress


def show(text: str) -> None:
    """Write a result in which control characters may stand."""
    write(displayable(text))


def write(text: str) -> None:
    """Write a result, whatever the encoding of the output."""
    encoding = sys.stdout.encoding or "utf-8"  # a file or pipe may use an encoding without τ
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()


def note(*lines: object) -> None:
    """Write what is said beside the result."""
    sys.stderr.writelines(f"{line}\n" for line in lines)


def report_bad_input(error: ValueError) -> int:
    """Write the sentence of ``error`` in place of the progress and return the exit status."""
    show_progress("")
    sys.stderr.write(displayable(f"{error}\n"))
    return 2
