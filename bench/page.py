"""``python -m bench.page``: the page in Chromium: its start, and the first token after a click.

``app.py`` runs in a separate process, on the cores that also decode.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from playwright.sync_api import Browser

from bench.common.command import Command
from bench.common.page import chromium, opened, wait
from bench.common.report import BenchReport, MeasuredFigure

NOTE = "strict and mars, θ = 0.9, 128 tokens, temperature 1, K = 5, bundled pair; medians, quartiles in brackets"
IDLE_MS = 2000.0
EXAMPLE = "document.querySelector('#compare-lane-1 .tok')"
# Milliseconds from the click on Compare; a token counts once its frame is painted.
WATCH = """() => {
  let marks = window.marks = {};
  const note = (name, selector) => { if (document.querySelector(selector)) marks[name] ??= performance.now() - marks.clicked; };
  document.addEventListener("click", (event) => {
    if (event.target.closest("#compare")) marks = window.marks = { clicked: performance.now() };
  }, true);
  new MutationObserver(() => {
    if (!marks.clicked) return;
    if (!marks.token) requestAnimationFrame(() => setTimeout(note, 0, "token", '.mars-lane[data-state="running"] .tok'));
    if (marks.token) note("done", '#compare-strip [data-state="done"]');
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"] });
}"""


class Start(NamedTuple):
    """Seconds of a new page: from the start of the process to a usable button; from opening the
    page to the texts of the example. ``tokens``: milliseconds from each click on Compare to its
    first token, the first one cold."""

    usable_s: float
    example_s: float
    tokens: Sequence[float]


def start(browser: Browser, folder: Path, clicks: int) -> Start:
    tokens = []
    with opened(browser, folder) as page:
        usable_s = time.monotonic() - page.started
        page.window.wait_for_function(EXAMPLE)
        example_s = page.window.evaluate("performance.now()") / 1000
        wait(f"{page.url}ready")
        page.window.evaluate(WATCH)
        for _ in range(clicks):
            page.window.wait_for_timeout(IDLE_MS)
            page.window.click("#compare")
            page.window.wait_for_function("window.marks.done")
            tokens.append(float(page.window.evaluate("window.marks.token")))
    return Start(usable_s, example_s, tokens)


def figures(starts: Sequence[Start]) -> list[MeasuredFigure]:
    """The first click of each start is cold."""
    later = [token for each in starts for token in each.tokens[1:]]
    return [
        MeasuredFigure.of(name, values, unit, most=most)
        for name, most, unit, values in (
            ("process start to a usable page", 5.0, "s", [each.usable_s for each in starts]),
            ("opening to the example's texts", 1.5, "s", [each.example_s for each in starts]),
            ("first click to its first token", 350, "ms", [each.tokens[0] for each in starts]),
            ("later clicks to their first token", 250, "ms", later),
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """``clicks``: comparisons per start, at least 2."""
    command = Command("bench.page", __doc__, starts=3, clicks=8)
    options = command.read(arguments)
    starts = list[Start]()
    with chromium() as browser:
        for _ in range(options.starts):
            with TemporaryDirectory(prefix="mars-page-") as folder:
                starts.append(start(browser, Path(folder), max(2, options.clicks)))
    return command.finish(BenchReport("The page", [NOTE], figures(starts)), "page")


if __name__ == "__main__":
    sys.exit(main())
