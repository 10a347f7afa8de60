"""Progress on standard error: one line that is rewritten on a terminal, few lines in a log."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

from tqdm import tqdm

from display.format import displayable

LOG_S = 15.0  # between two lines that differ in their numbers only, where there is no terminal
_last: tuple[str, float] = "", 0.0  # words of the latest line, and when it was written
_NUMBERS = re.compile(r"[\d.,]+")


def show_progress(text: str) -> None:
    """Rewrite the line; nothing is left of it where ``text`` is empty. Where standard error is no
    terminal, every stage has a line, and its numbers one each LOG_S."""
    global _last
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{displayable(text)}")
    else:
        words, now = _NUMBERS.sub("", text), time.monotonic()
        stage, before = _last
        if not text or (stage and words.startswith(stage) and now - before < LOG_S):
            return
        _last = words, now
        sys.stderr.write(f"{displayable(text)}\n")
    sys.stderr.flush()


def progress_bar(total: int, unit: str, **settings: Any) -> tqdm[Any]:
    """Return tqdm's bar, which a log gets every LOG_S."""
    interval = 0.1 if sys.stderr.isatty() else LOG_S
    return tqdm(total=total, unit=f" {unit}", mininterval=interval, **settings)
