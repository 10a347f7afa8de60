"""``python -m bench.page_views``: the cost of the page's views in the browser: a long stream, a
long history, a long margin map.

The real page in Chromium, on the cores that also decode. Blocked is the sum of the browser's
``longtask`` entries (a task counts from 50 ms on). The stream is one lane of a random pair with a
long context, given as the user's own folders.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser

from bench.common.command import measurement
from bench.common.decoding import bundled, complete, config_of
from bench.common.page import chromium, opened, served
from bench.common.report import Figure, Report
from bench.common.shapes import small
from bench.coupled import NOISE, VOCABULARY, save_models
from mars_core.models import ModelPool
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig
from storage import RunStore

STREAM_MS, HISTORY_MS, MAP_MS = 100.0, 300.0, 300.0  # goals, at most
IDLE_MS = 1000.0
# Long tasks, and when the lane and the whole comparison ended: a locator looks twice a second only,
# and the map is drawn within that time.
OBSERVE = """() => {
  window.tasks = [];
  window.ends = {};
  new PerformanceObserver((list) => tasks.push(...list.getEntries())).observe({ type: "longtask" });
  new MutationObserver(() => {
    if (document.querySelector("#compare-lane-0 [data-state=completed]")) ends.lane ??= performance.now();
    if (document.querySelector("#compare-strip [data-state=done]")) ends.all ??= performance.now();
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"] });
}"""
BLOCKED = """() => {
  const sum = (from, to) => tasks.filter(({ startTime }) => from <= startTime && startTime < to)
    .reduce((all, { duration }) => all + duration, 0);
  return [sum(started, ends.lane), sum(ends.lane, ends.all), sum(ends.all, Infinity)];
}"""
OPEN = """(tab) => new Promise((done) => {
  const started = performance.now();
  const seen = () => document.querySelector(".mars-history-row") &&
    requestAnimationFrame(() => setTimeout(() => { watcher.disconnect(); done(performance.now() - started); }, 0));
  const watcher = new MutationObserver(seen);
  watcher.observe(document.body, { subtree: true, childList: true });
  [...document.querySelectorAll('[role="tab"]')].find((node) => node.textContent.trim() === tab).click();
})"""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One lane. ``shown``, ``stored``: its tokens on the page and in the store; milliseconds
    blocked while it streamed, at its end, and by its map."""

    shown: int
    stored: int
    stream_ms: float
    closing_ms: float
    map_ms: float


def stream(browser: Browser, folder: Path, tokens: int) -> Streamed:
    """One strict lane of ``tokens`` tokens at temperature 1."""
    pair = save_models(small(VOCABULARY), folder / "pair", NOISE)
    with served(folder) as app, opened(browser, app.url) as page:
        page.evaluate(OBSERVE)
        page.click("#settings > summary")
        page.select_option("#pair select", label="Own folders or Hub ids")
        page.fill("#own-target input", pair.target.name)
        page.fill("#own-draft input", pair.draft.name if pair.draft else "")
        page.click("#remove-lane-1")
        page.get_by_label("Max new tokens", exact=True).fill(str(tokens))
        page.locator("#prompt textarea").fill(" ".join(["t1"] * 8))
        page.wait_for_function("window.Plotly")  # loaded while the page is idle
        page.wait_for_timeout(IDLE_MS)
        page.evaluate("window.started = performance.now()")
        page.click("#compare")
        page.wait_for_function("window.ends.all")
        page.locator(".heatmaplayer").first.wait_for()
        page.wait_for_timeout(IDLE_MS)
        streaming, closing, drawing = page.evaluate(BLOCKED)
        shown = page.locator("#compare-lane-0 .tok").count()
    with RunStore(f"sqlite:///{folder}/runs.db") as store:
        stored = (
            store.load(str(store.comparisons(limit=1)["id"].iloc[0]))
            .runs[0]
            .trace.summary.new_tokens
        )
    return Streamed(shown, stored, streaming, closing, drawing)


def fill(folder: Path, comparisons: int) -> None:
    """A database of that many comparisons, each two short runs of the bundled pair."""
    pair = bundled()
    prompt = PromptConfig(pair.spec.prompts[0])
    traces = [
        complete(pair, config_of(pair, prompt, DrafterConfig(), 1.0, 8, 0, RuleConfig(rule)))
        for rule in ("strict", "mars")
    ]
    with RunStore(f"sqlite:///{folder}/runs.db") as store:
        for _ in range(comparisons):
            name = store.new_comparison(prompt)
            for lane, trace in enumerate(traces):
                store.save_run(name, trace, lane=lane, order=lane)


def history(browser: Browser, folder: Path, comparisons: int, visits: int) -> list[float]:
    """Milliseconds from the click on History to the painted list, one new window per visit."""
    fill(folder, comparisons)
    found = []
    with served(folder) as app:
        for _ in range(visits):
            with opened(browser, app.url) as page:
                page.wait_for_timeout(1500)
                found.append(float(page.evaluate(OPEN, "History")))
    return found


def report(streams: Sequence[Streamed], opened_ms: Sequence[float], comparisons: int) -> Report:
    tokens = streams[0].stored
    lost = ", ".join(str(one.stored - one.shown) for one in streams)
    figures = [
        Figure.of(
            f"stream of {tokens} tokens: blocked",
            [one.stream_ms for one in streams],
            "ms",
            most=STREAM_MS,
        ),
        Figure.of(
            "its end (whole view, table; no figure yet): blocked",
            [one.closing_ms for one in streams],
            "ms",
        ),
        Figure.of(
            f"margin map of {tokens} tokens: blocked",
            [one.map_ms for one in streams],
            "ms",
            most=MAP_MS,
        ),
        Figure.of(
            f"history of {comparisons} comparisons: click to list", opened_ms, "ms", most=HISTORY_MS
        ),
    ]
    notes = [f"tokens lost between engine and page, by stream: {lost}"]
    data = {"streams": [asdict(one) for one in streams], "history_ms": opened_ms}
    return Report(
        "The page's views in Chromium", notes, figures, data=data, device=ModelPool().device
    )


@measurement("page-views", tokens=2048, comparisons=5000, rounds=3)
def main(options: Namespace) -> Report:
    with chromium() as browser:
        streams = []
        for _ in range(options.rounds):
            with TemporaryDirectory(prefix="mars-views-") as folder:
                streams.append(stream(browser, Path(folder), options.tokens))
        with TemporaryDirectory(prefix="mars-views-") as folder:
            opened_ms = history(browser, Path(folder), options.comparisons, options.rounds)
    return report(streams, opened_ms, options.comparisons)
