"""``python -m bench.page_views``: what the page's views cost the browser: a long stream, a long history, a long margin map.

The real page in Chromium, on the cores that also decode. Blocked is the sum of the browser's own ``longtask`` entries, each whole (a
task counts from 50 ms on). The stream is one lane of a random pair with a long context, given as one's own folders.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, sync_playwright

from bench.growth import save_pair
from bench.machine import RESULTS, machine, stem
from bench.page import ARGUMENTS, PATIENCE_S, answers, served
from mars_core.models import CATALOG, ModelPool
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig, Sampling
from storage import RunStore

GOALS = {"stream": 500.0, "history": 1000.0, "map": 300.0}  # ms, at most
VOCABULARY = 2048
OBSERVE = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ type: "longtask" });
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
    """One lane. ``tokens``: on the page and in the store; milliseconds blocked while it streamed, at its end, and by its map."""

    shown: int
    stored: int
    stream_ms: float
    closing_ms: float
    map_ms: float


@contextmanager
def fresh_page(browser: Browser, url: str, started: float) -> Iterator[Page]:
    answers(url, started)
    page = browser.new_page(reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    page.set_default_timeout(1000 * PATIENCE_S)
    page.goto(url)
    page.locator("#compare:enabled").wait_for()
    page.evaluate(OBSERVE)
    yield page
    page.close()


def blocked(page: Page) -> float:
    """Milliseconds of long tasks since it was last asked; waits until the page is at rest."""
    page.wait_for_timeout(700)
    return float(
        page.evaluate("() => { const sum = longTasks.reduce((a, b) => a + b, 0); longTasks.length = 0; return sum; }")
    )


def stream(browser: Browser, folder: Path, tokens: int) -> Streamed:
    """One strict lane of ``tokens`` tokens at temperature 1."""
    pair = save_pair(folder / "pair", VOCABULARY)
    with served(folder) as (url, started), fresh_page(browser, url, started) as page:
        page.get_by_label("Model pair").click()
        page.get_by_role("option", name="Own folders or Hub ids").click()
        page.fill("#own-target textarea, #own-target input", pair.target.name)
        page.fill("#own-draft textarea, #own-draft input", pair.draft.name if pair.draft else "")
        page.click("#remove-lane-1")
        page.get_by_label("Max new tokens", exact=True).fill(str(tokens))
        page.locator("#prompt textarea").fill(" ".join(["t1"] * 8))
        page.wait_for_function("window.Plotly")  # loaded while the page is idle
        blocked(page)
        page.click("#compare")
        page.wait_for_selector("#compare-lane-0 [data-state=completed]")
        streaming = float(
            page.evaluate(
                "() => { const sum = longTasks.reduce((a, b) => a + b, 0); longTasks.length = 0; return sum; }"
            )
        )
        page.wait_for_selector("#compare-strip [data-state=done]")
        closing = blocked(page)
        shown = page.locator("#compare-lane-0 .tok").count()
        page.get_by_role("tab", name="Margins").first.click()
        page.wait_for_selector("#compare-lane-0")
        page.locator(".heatmaplayer").first.wait_for()
        drawing = blocked(page)
    with RunStore(f"sqlite:///{folder}/runs.db") as store:
        stored = store.load(str(store.comparisons(limit=1)["id"].iloc[0])).runs[0].trace.summary.new_tokens
    return Streamed(shown, stored, streaming, closing, drawing)


def fill(folder: Path, comparisons: int) -> None:
    """A database of that many comparisons, each two short runs of the bundled pair."""
    pair = ModelPool().get(CATALOG[0])
    configs = [
        run_config(
            pair, prompt=PromptConfig(pair.spec.prompts[0]), rule=RuleConfig(rule), drafter=DrafterConfig(),
            sampling=Sampling(1.0), max_new_tokens=8, seed=0,
        )
        for rule in ("strict", "mars")
    ]  # fmt: skip
    runs = [Session(pair).start(config) for config in configs]
    for run in runs:
        for _ in run:
            pass
    traces = [run.trace() for run in runs]
    with RunStore(f"sqlite:///{folder}/runs.db") as store:
        for _ in range(comparisons):
            name = store.new_comparison(traces[0].config.prompt)
            for lane, trace in enumerate(traces):
                store.save_run(name, trace, lane=lane, order=lane)


def history(browser: Browser, folder: Path, comparisons: int, visits: int) -> list[float]:
    """Milliseconds from the click on History to the painted list, one fresh window a visit."""
    fill(folder, comparisons)
    found = []
    with served(folder) as (url, started):
        for _ in range(visits):
            with fresh_page(browser, url, started) as page:
                page.wait_for_timeout(1500)
                found.append(float(page.evaluate(OPEN, "History")))
    return found


def report(streams: Sequence[Streamed], opened: Sequence[float], comparisons: int, facts: dict[str, str]) -> str:
    rows = {
        f"stream of {streams[0].stored} tokens: blocked, ms": ([one.stream_ms for one in streams], GOALS["stream"]),
        "its end (whole view, table; no figure is drawn yet): blocked, ms": ([one.closing_ms for one in streams], None),
        f"margin map of {streams[0].stored} tokens: blocked, ms": ([one.map_ms for one in streams], GOALS["map"]),
        f"history of {comparisons} comparisons: click to painted list, ms": (list(opened), GOALS["history"]),
    }
    lines = ["# The page's views in Chromium", "", *(f"- {name}: {value}" for name, value in facts.items())]
    lost = [one.stored - one.shown for one in streams]
    lines += [f"- tokens lost between engine and page, by stream: {', '.join(map(str, lost))}", ""]
    lines += ["| what | median | all | goal: at most | reached |", "|---|---:|---|---:|---|"]
    for name, (values, goal) in rows.items():
        each = ", ".join(f"{value:.0f}" for value in values)
        said = "– | –" if goal is None else f"{goal:g} | {'yes' if median(values) <= goal else 'no'}"
        lines.append(f"| {name} | {median(values):.0f} | {each} | {said} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.page_views", description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--comparisons", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    path = os.environ.get("MARS_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        streams = []
        for _ in range(options.rounds):
            with TemporaryDirectory(prefix="mars-views-") as folder:
                streams.append(stream(browser, Path(folder), options.tokens))
        with TemporaryDirectory(prefix="mars-views-") as folder:
            opened = history(browser, Path(folder), options.comparisons, options.rounds)
        browser.close()
    device = ModelPool().device
    command = f"`python -m bench.page_views --tokens {options.tokens} --comparisons {options.comparisons} --rounds {options.rounds}`"
    facts = {"command": command, **machine(device)}
    text = report(streams, opened, options.comparisons, facts)
    sys.stdout.write(text)
    target = stem(options.out, "page-views", device.type)
    target.with_suffix(".md").write_text(text, encoding="utf-8")
    found = {"machine": facts, "streams": [asdict(one) for one in streams], "history_ms": opened}
    target.with_suffix(".json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
