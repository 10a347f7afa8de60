"""``python -m bench.page``: the page in Chromium: its start, and the first token after a click.

``app.py`` runs in a separate process, on the cores that also decode.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from playwright.sync_api import Browser, ViewportSize

from bench.common.command import Options, Reports, measurement
from bench.common.page import PATIENCE_S, chromium, serving, wait
from bench.common.report import BenchReport, MeasuredFigure

NOTE = "strict and mars, θ = 0.9, 128 tokens, temperature 1, K = 5, bundled pair; medians, quartiles in brackets"
WINDOW_MS, IDLE_MS = 1500.0, 2000.0
VIEWPORT = ViewportSize(width=1280, height=900)
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


class PageStart(NamedTuple):
    """Seconds of a new page: of a process that imports Gradio alone; from the start of the process to
    a usable button; from opening the page to the texts of the example. ``tokens``: milliseconds from
    each click on Compare to its first token, the first one cold."""

    gradio_s: float
    usable_s: float
    example_s: float
    tokens: Sequence[float]


def start(browser: Browser, folder: Path, clicks: int) -> PageStart:
    """Start, the window first, since Chromium loads its interface for it, as a visitor's has
    long before."""
    window, tokens = browser.new_page(reduced_motion="reduce", viewport=VIEWPORT), []
    window.set_default_timeout(1000 * PATIENCE_S)
    window.wait_for_timeout(WINDOW_MS)
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import gradio"], check=True)
    gradio_s, begun = time.monotonic() - begun, time.monotonic()
    with serving(folder) as url, closing(window):
        window.goto(url)
        # a locator looks twice a second only
        window.wait_for_function("document.querySelector('#compare:enabled')")
        usable_s = time.monotonic() - begun
        window.wait_for_function(EXAMPLE)
        example_s = window.evaluate("performance.now()") / 1000
        wait(f"{url}ready")
        window.evaluate(WATCH)
        for _ in range(clicks):
            window.wait_for_timeout(IDLE_MS)
            window.click("#compare")
            window.wait_for_function("window.marks.done")
            tokens.append(float(window.evaluate("window.marks.token")))
    return PageStart(gradio_s, usable_s, example_s, tokens)


def figures(starts: Sequence[PageStart]) -> list[MeasuredFigure]:
    """Measure; the first click of each start is cold."""
    gradio, usable, examples, clicks = zip(*starts, strict=True)
    first, *later = zip(*clicks, strict=True)
    ratios = [page / alone for page, alone in zip(usable, gradio, strict=True)]
    return [
        MeasuredFigure.of("process start to a usable page", usable, "s", most=5),
        MeasuredFigure.of("usable page / Gradio alone imported", ratios, "×", most=1.15),
        MeasuredFigure.of("opening to the example's texts", examples, "s", most=1.5),
        MeasuredFigure.of("first click to its first token", first, "ms", most=350),
        MeasuredFigure.of("later clicks to their first token", chain(*later), "ms", most=250),
    ]


@measurement("bench.page", __doc__, starts=3, clicks=8)
def main(options: Options) -> Reports:
    """``clicks``: comparisons per start, at least 2."""
    starts = list[PageStart]()
    with chromium() as browser:
        for _ in range(options.starts):
            with TemporaryDirectory(prefix="mars-page-") as folder:
                starts.append(start(browser, Path(folder), max(2, options.clicks)))
    yield BenchReport("The page", [NOTE], figures(starts))


if __name__ == "__main__":
    raise SystemExit(main())
