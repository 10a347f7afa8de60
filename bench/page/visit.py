"""The page in Chromium: its start, and whole comparisons on it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page

from bench.common.command import ROOT
from bench.common.page import opened, served
from storage import RunStore

SETTLE_MS = 2000.0
WATCH = """() => {
  let marks = window.marsMarks = {};
  const note = (name, selector) => { if (document.querySelector(selector)) marks[name] ??= performance.now() - marks.clicked; };
  document.addEventListener("click", (event) => {
    if (event.target.closest("#compare")) marks = window.marsMarks = { clicked: performance.now() };
  }, true);
  new MutationObserver(() => {
    if (!marks.clicked) return;
    note("answered", '#compare-strip [data-state="running"]');
    note("opened", '.mars-lane[data-state="waiting"]');
    if (!marks.token) requestAnimationFrame(() => setTimeout(note, 0, "token", '.mars-lane[data-state="running"] .tok'));
    if (marks.token) note("done", '#compare-strip [data-state="done"]');
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"] });
}"""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process to the first answer, and to a button that can be pressed. ``gradio_s``: what a process of its
    own took just before to start and import gradio."""

    http_s: float
    usable_s: float
    gradio_s: float


@dataclass(frozen=True, slots=True)
class Click:
    """Milliseconds from the click on Compare, in the browser's clock; a token counts after the frame that paints it."""

    answered: float
    opened: float  # the lanes wait, the warm-up begins
    token: float
    done: float


def click(page: Page) -> Click:
    """One whole comparison, once the page has painted what was before it."""
    page.wait_for_timeout(SETTLE_MS)
    page.click("#compare")
    page.wait_for_function("window.marsMarks.done")
    marks = page.evaluate("window.marsMarks")
    return Click(marks["answered"], marks["opened"], marks["token"], marks["done"])


def visit(browser: Browser, clicks: int) -> tuple[Start, tuple[Click, ...], tuple[float, ...]]:
    """A fresh page: its start, its comparisons, the first one cold, and the stored milliseconds of the runs of each."""
    gradio_s = imported("gradio")
    with TemporaryDirectory(prefix="mars-page-") as name:
        with served(Path(name)) as app, opened(browser, app.url) as page:
            start = Start(app.http_s, time.monotonic() - app.started, gradio_s)
            page.evaluate(WATCH)
            found = tuple(click(page) for _ in range(clicks))
        with RunStore(f"sqlite:///{name}/runs.db") as store:
            ids = reversed(list(store.comparisons(limit=clicks)["id"]))
            runs = tuple(1000 * sum(run.trace.summary.wall_s for run in store.load(str(each)).runs) for each in ids)
    return start, found, runs


def imported(module: str) -> float:
    """Seconds from the start of a process that imports nothing else until the module is imported."""
    started = time.monotonic()
    return float(run_python(f"import time, {module}; print(time.monotonic())")) - started


def run_python(code: str, *arguments: str) -> str:
    """The last line that ``code`` writes."""
    environment = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.splitlines()[-1]
