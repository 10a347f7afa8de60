"""``python -m bench.page``: time until the page is usable, time to the first token, and cost of
streaming.

In a browser: ``app.py`` in a separate process with an empty database, driven by Chromium; before
each start gradio is imported alone in another process. Without a browser: the page's generator
compared with plain runs of the same configurations, alternating.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page

from bench.common.command import ROOT, measurement
from bench.common.page import answered, chromium, served, visit, window
from bench.common.report import Figure, Report, spread_table
from bench.page.stream import Shown, compare
from mars_core.models import ModelPool
from storage import RunStore

USABLE_S, OVER_GRADIO, EXAMPLE_S, FIRST_MS, TOKEN_MS = 5.0, 1.3, 1.5, 350.0, 250.0  # goals, at most
STREAMING, OVER_RUNS = 2.0, 20.0  # the same, in %
NOTE = "strict and mars, θ = 0.9, 128 tokens, temperature 1, K = 5, bundled pair; medians, quartiles in brackets"
STAGES: Mapping[str, str] = {  # of a start, as code
    "import torch": "import torch",
    "import gradio without its stubs": "import ui",
    "the other imports": "import app",
    "open the database": "store = app.RunStore(sys.argv[1])",
    "load the bundled pair": "pool = app.ModelPool(); pool.get(app.BUNDLED_PAIR)",
    "build the page": "app.build_app(app.Services(pool, store))",
}
EMPTY = """import os, threading, gradio
with gradio.Blocks(analytics_enabled=False) as page:
    gradio.Button(elem_id="compare")
page.launch(server_port=int(os.environ["PORT"]), quiet=True, prevent_thread_lock=True, ssr_mode=False)
threading.Event().wait()"""  # a page of gradio with nothing of ours
SETTLE_MS = 2000.0
DRAWN = "document.querySelectorAll('.mars-figure[data-state=drawn]').length >= 2"
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
    """Seconds from the start of the process to the first response, and to a usable button.
    ``gradio_s``: time of a separate process just before to start and import gradio; ``empty_s``: to
    a usable button on a page that has nothing else; ``example_s``: from opening the page to the
    margin maps of the example."""

    http_s: float
    usable_s: float
    gradio_s: float
    empty_s: float
    example_s: float


@dataclass(frozen=True, slots=True)
class Click:
    """Milliseconds from the click on Compare, in the browser's clock; a token counts once its frame
    is painted."""

    answered: float
    opened: float  # the lanes wait, the warm-up begins
    token: float
    done: float


def click(page: Page) -> Click:
    """One complete comparison, started once the page is idle."""
    page.wait_for_timeout(SETTLE_MS)
    page.click("#compare")
    page.wait_for_function("window.marsMarks.done")
    marks = page.evaluate("window.marsMarks")
    return Click(marks["answered"], marks["opened"], marks["token"], marks["done"])


def first_visit(
    browser: Browser, clicks: int
) -> tuple[Start, tuple[Click, ...], tuple[float, ...]]:
    """A new page: its start, its comparisons once the pair is loaded, the first one cold, and the
    stored milliseconds of their runs."""
    gradio_s = imported("gradio")
    with TemporaryDirectory(prefix="mars-page-") as name:
        with window(browser) as page, served(Path(name), "-c", EMPTY) as app:
            visit(page, app.url)
            empty_s = time.monotonic() - app.started
        with window(browser) as page, served(Path(name)) as app:
            visit(page, app.url)
            usable_s = time.monotonic() - app.started
            page.wait_for_function(DRAWN)
            start = Start(
                app.http_s, usable_s, gradio_s, empty_s, page.evaluate("performance.now()") / 1000
            )
            answered(f"{app.url}ready", app.started)
            page.evaluate(WATCH)
            found = tuple(click(page) for _ in range(clicks))
        with RunStore(f"sqlite:///{name}/runs.db") as store:
            ids = reversed(list(store.comparisons(limit=clicks)["id"]))
            loaded = [store.load(str(each)) for each in ids]
    runs = (
        [run.trace.summary for run in stored.runs] + [each.summary for each in stored.repeats]
        for stored in loaded
    )
    return start, found, tuple(1000 * sum(summary.wall_s for summary in each) for each in runs)


def imported(module: str) -> float:
    """Seconds from the start of a process that imports nothing else until the module is
    imported."""
    started = time.monotonic()
    return float(run_python(f"import time, {module}; print(time.monotonic())")) - started


def run_python(code: str, *arguments: str) -> str:
    """The last line that ``code`` writes."""
    environment = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return done.stdout.splitlines()[-1]


def stages() -> dict[str, float]:
    """Seconds of the parts of a start, in a separate process."""
    parts = "; ".join(f"{code}; marks.append(time.perf_counter())" for code in STAGES.values())
    with TemporaryDirectory(prefix="mars-page-") as folder:
        code = f"import json, sys, time; marks = [time.perf_counter()]; {parts}; print(json.dumps(marks))"
        marks = json.loads(run_python(code, f"sqlite:///{folder}/runs.db"))
    return {name: marks[at + 1] - marks[at] for at, name in enumerate(STAGES)}


def figures(
    starts: Sequence[Start],
    clicks: Sequence[Sequence[Click]],
    runs: Sequence[Sequence[float]],
    shown: Sequence[Shown],
) -> list[Figure]:
    """``clicks``, and the milliseconds of their ``runs``: by start; the first of each is cold."""
    over = [
        100 * (one.done / own - 1)
        for each, ms in zip(clicks, runs, strict=True)
        for one, own in zip(each[1:], ms[1:], strict=True)
    ]
    return [
        Figure.of("process start to HTTP 200", [one.http_s for one in starts], "s"),
        Figure.of(
            "process start to a usable page", [one.usable_s for one in starts], "s", most=USABLE_S
        ),
        Figure.of("process start to gradio imported, alone", [one.gradio_s for one in starts], "s"),
        Figure.of(
            "usable page / gradio alone",
            [one.usable_s / one.gradio_s for one in starts],
            "×",
            most=OVER_GRADIO,
        ),
        Figure.of(
            "a page of gradio with one button / gradio alone",
            [one.empty_s / one.gradio_s for one in starts],
            "×",
        ),
        Figure.of(
            "opening the page to the margin maps of the example",
            [one.example_s for one in starts],
            "s",
            most=EXAMPLE_S,
        ),
        Figure.of(
            "click to the first token, first comparison after a start",
            [each[0].token for each in clicks],
            "ms",
            most=FIRST_MS,
        ),
        Figure.of(
            "click to the first token, later ones",
            [one.token for each in clicks for one in each[1:]],
            "ms",
            most=TOKEN_MS,
        ),
        Figure.of("click to the end over the runs' own time", over, "%", most=OVER_RUNS),
        Figure.of(
            "streaming over the runs' time, without a browser",
            [100 * (each.streaming / each.direct - 1) for each in shown],
            "%",
            most=STREAMING,
        ),
    ]


def browser_parts(later: Sequence[Click], runs: Sequence[float]) -> dict[str, list[float]]:
    return {
        "click to the page's answer": [one.answered for one in later],
        "to the waiting lanes": [one.opened - one.answered for one in later],
        "to the first token: warm-ups, first frame": [one.token - one.opened for one in later],
        "to the end: both runs, saved and painted": [one.done - one.token for one in later],
        "click to the end": [one.done for one in later],
        "both runs' own wall time, as stored": list(runs),
    }


def generator_parts(shown: Sequence[Shown]) -> dict[str, list[float]]:
    parts = {
        "the runs alone, in one go": [each.direct for each in shown],
        "their steps, as the page takes them": [each.steps for each in shown],
        "streaming: rows of tokens": [each.rows for each in shown],
        "streaming: a lane's whole view at its end": [each.ended for each in shown],
        "streaming: the rest (threads, views, JSON)": [
            each.streaming - each.steps - each.rows - each.ended for each in shown
        ],
        "opening: finding the pair, configurations": [each.opening for each in shown],
        "warm-up": [each.warm_up for each in shown],
        "saving": [each.saving for each in shown],
        "closing: sentence, tables, figures": [each.closing for each in shown],
    }
    return {name: [1000 * seconds for seconds in values] for name, values in parts.items()}


@measurement("page", starts=3, clicks=(8, 2), rounds=15)
def main(options: Namespace) -> Report:
    """``clicks``: comparisons per start, the first one cold; ``rounds``: comparisons without a
    browser."""
    with chromium() as browser:
        starts, clicks, runs = zip(
            *(first_visit(browser, options.clicks) for _ in range(options.starts)), strict=True
        )
    shown = compare(options.rounds)
    later, walls = (
        [one for each in clicks for one in each[1:]],
        [ms for each in runs for ms in each[1:]],
    )
    tables = (
        spread_table(browser_parts(later, walls), "A later comparison in the browser, ms"),
        spread_table(
            generator_parts(shown),
            "A comparison through the page's generator, without a browser, ms",
        ),
        spread_table({name: [seconds] for name, seconds in stages().items()}, "A start, s"),
    )
    data = {
        "clicks": [list(map(asdict, each)) for each in clicks],
        "runs_ms": runs,
        "shown": list(map(asdict, shown)),
    }
    return Report(
        "The page",
        [NOTE],
        figures(starts, clicks, runs, shown),
        tables,
        data,
        device=ModelPool().device,
    )
