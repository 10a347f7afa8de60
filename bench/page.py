"""``python -m bench.page``: the page in Chromium: its start, the first token after a click, a long
stream.

``app.py`` runs in a separate process, on the cores that also decode. Blocked is the sum of the
browser's ``longtask`` entries (a task counts from 50 ms on).
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
from bench.common.shapes import small
from bench.coupled import NOISE, VOCABULARY, save_models

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
    if (marks.token) note("lane", '#compare-lane-0 [data-state="completed"]');
    if (marks.token) note("done", '#compare-strip [data-state="done"]');
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"] });
  window.tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries())).observe({ type: "longtask" });
}"""
BLOCKED = """() => {
  const { clicked, lane, map } = window.marks;
  const sum = (from, to) => tasks.filter(({ startTime: at }) => clicked + from <= at && at < clicked + to)
    .reduce((all, { duration }) => all + duration, 0);
  return [sum(0, lane), sum(lane, map), sum(map, Infinity)];
}"""


class Start(NamedTuple):
    """Seconds of a new page: from the start of the process to a usable button; from opening the
    page to the texts of the example. ``tokens``: milliseconds from each click on Compare to its
    first token, the first one cold."""

    usable_s: float
    example_s: float
    tokens: Sequence[float]


class Stream(NamedTuple):
    """Milliseconds blocked by a lane while it streamed, at its end, and by its margin map, once that
    is opened."""

    streaming: float
    end: float
    map: float


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


def stream(browser: Browser, folder: Path, tokens: int) -> Stream:
    """One strict lane of a random pair with a long context, as the user's folders."""
    pair = save_models(small(VOCABULARY), folder / "pair", NOISE)
    assert pair.draft is not None
    with opened(browser, folder) as page:
        window = page.window
        window.evaluate(WATCH)
        window.click("#settings > summary")
        window.select_option("#pair select", label="My own model…")
        window.fill("#own-target input", pair.target.name)
        window.fill("#own-draft input", pair.draft.name)
        window.click("#remove-lane-1")
        window.get_by_label("Max new tokens", exact=True).fill(str(tokens))
        window.locator("#prompt textarea").fill(" ".join(["t1"] * 8))
        window.wait_for_function("window.Plotly")  # loaded while the page is idle
        window.wait_for_timeout(IDLE_MS)
        window.click("#compare")
        window.wait_for_function("window.marks.done")
        window.wait_for_timeout(IDLE_MS)
        window.evaluate("window.marks.map = performance.now() - window.marks.clicked")
        window.locator("#compare-details").get_by_role("tab", name="Margins", exact=True).click()
        window.locator(".heatmaplayer").first.wait_for()
        window.wait_for_timeout(IDLE_MS)
        assert window.locator("#compare-lane-0 .tok").count() == tokens
        return Stream(*window.evaluate(BLOCKED))


def figures(starts: Sequence[Start], streams: Sequence[Stream]) -> list[MeasuredFigure]:
    """The first click of each start is cold."""
    later = [token for each in starts for token in each.tokens[1:]]
    return [
        MeasuredFigure.of(name, values, unit, most=most)
        for name, most, unit, values in (
            ("process start to a usable page", 5.0, "s", [each.usable_s for each in starts]),
            ("opening to the example's texts", 1.5, "s", [each.example_s for each in starts]),
            ("first click to its first token", 350, "ms", [each.tokens[0] for each in starts]),
            ("later clicks to their first token", 250, "ms", later),
            ("a long stream: blocked", 100, "ms", [one.streaming for one in streams]),
            ("its end: blocked", 100, "ms", [one.end for one in streams]),
            ("its margin map: blocked", 300, "ms", [one.map for one in streams]),
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """``clicks``: comparisons per start, at least 2."""
    command = Command("bench.page", __doc__, starts=3, clicks=8, tokens=2048)
    options = command.read(arguments)
    starts, streams = list[Start](), list[Stream]()
    with chromium() as browser, TemporaryDirectory(prefix="mars-page-") as name:
        folders = [Path(name, str(number)) for number in range(2 * options.starts)]
        for folder in folders:
            folder.mkdir()
        for number in range(options.starts):
            starts.append(start(browser, folders[2 * number], max(2, options.clicks)))
            streams.append(stream(browser, folders[2 * number + 1], options.tokens))
    note = f"stream: {options.tokens:,} tokens"
    measured = figures(starts, streams)
    return command.finish(BenchReport("The page", [NOTE, note], measured), "page")


if __name__ == "__main__":
    sys.exit(main())
