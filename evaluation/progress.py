"""Progress on standard error: one line that is rewritten on a terminal, few lines in a log."""

from __future__ import annotations

import re
import sys
import time

LOG_S = 15.0  # between two lines that differ in their numbers only, where there is no terminal
_last: tuple[str, float] = "", 0.0  # words of the latest line, and when it was written
_NUMBERS = re.compile(r"[\d.,]+")


def printable(text: str) -> str:
    """Escape control characters in model output and file names before they reach the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def show_progress(text: str) -> None:
    """Rewrite the line; nothing is left of it where ``text`` is empty. Where standard error is no
    terminal, every stage has a line, and its numbers one each LOG_S."""
    global _last
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{printable(text)}")
    else:
        words, now = _NUMBERS.sub("", text), time.monotonic()
        stage, before = _last
        if not text or (stage and words.startswith(stage) and now - before < LOG_S):
            return
        _last = words, now
        sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()
