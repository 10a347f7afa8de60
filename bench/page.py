"""``python -m bench.page``: how soon the page is there, how soon a first token shows, and what streaming to it costs.

In a browser: ``app.py`` in a process of its own with an empty database, driven by Chromium. Without one: the page's generator beside
plain runs of the same configurations, in this process, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, sync_playwright

from bench.machine import RESULTS, machine, stem
from bench.page_report import Click, Result, Start, report
from bench.page_stream import compare
from mars_core.models import ModelPool
from storage import RunStore

ROOT = Path(__file__).parents[1]
PATIENCE_S, SETTLE_MS = 120.0, 2000.0
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
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
STAGES: Mapping[str, str] = {
    "import torch": "import torch",
    "import gradio": "import gradio",
    "the other imports": "import app",
    "open the database": "store = app.RunStore(sys.argv[1])",
    "load the bundled pair": "pool = app.ModelPool(); pool.get(app.CATALOG[0])",
    "build the page": "app.build_app(app.Services(pool, store))",
}


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, float]]:
    """The page's address and the time at which its process was started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "MARS_DATABASE_URL": f"sqlite:///{folder}/runs.db",
    }
    started = time.monotonic()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}/", started
        finally:
            process.terminate()
            process.wait(timeout=30)


def answers(url: str, started: float) -> float:
    """Seconds until the page answers with 200. Raises TimeoutError."""
    while time.monotonic() - started < PATIENCE_S:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return time.monotonic() - started
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"The page did not answer within {PATIENCE_S:.0f} s.")


def click(page: Page) -> Click:
    """One whole comparison, once the page has drawn what was before it."""
    page.wait_for_timeout(SETTLE_MS)
    page.click("#compare")
    page.wait_for_function("window.marsMarks.done")
    marks = page.evaluate("window.marsMarks")
    return Click(marks["answered"], marks["opened"], marks["token"], marks["done"])


def visit(browser: Browser, clicks: int) -> tuple[Start, list[Click], list[float]]:
    """A fresh page: its start, its comparisons, the first one cold, and the milliseconds that the runs of each say they took."""
    with TemporaryDirectory(prefix="mars-page-") as name:
        with served(Path(name)) as (url, started):
            http_s = answers(url, started)
            page = browser.new_page(reduced_motion="reduce")
            page.set_default_timeout(1000 * PATIENCE_S)
            page.goto(url)
            page.locator("#compare:enabled").wait_for()
            start = Start(http_s, time.monotonic() - started)
            page.evaluate(WATCH)
            found = [click(page) for _ in range(clicks)]
            page.close()
        with RunStore(f"sqlite:///{name}/runs.db") as store:
            ids = reversed(list(store.comparisons(limit=clicks)["id"]))
            runs = [1000 * sum(run.trace.summary.wall_s for run in store.load(str(each)).runs) for each in ids]
    return start, found, runs


def stages() -> dict[str, float]:
    """Seconds of the parts of a start, in a process of its own."""
    parts = "; ".join(f"{code}; marks.append(time.perf_counter())" for code in STAGES.values())
    code = f"import json, sys, time; marks = [time.perf_counter()]; {parts}; print(json.dumps(marks))"
    with TemporaryDirectory(prefix="mars-page-") as folder:
        command = [sys.executable, "-c", code, f"sqlite:///{folder}/runs.db"]
        environment = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    marks = json.loads(done.stdout.splitlines()[-1])
    return {name: marks[at + 1] - marks[at] for at, name in enumerate(STAGES)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--clicks", type=int, default=8, help="comparisons a start, the first one cold")
    parser.add_argument("--rounds", type=int, default=15, help="comparisons without a browser")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    path = os.environ.get("MARS_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        visits = [visit(browser, options.clicks) for _ in range(options.starts)]
        browser.close()
    starts, clicks, runs = zip(*visits, strict=True)
    result = Result(
        starts, tuple(map(tuple, clicks)), tuple(map(tuple, runs)), tuple(compare(options.rounds)), stages()
    )
    device = ModelPool().device
    command = f"`python -m bench.page --starts {options.starts} --clicks {options.clicks} --rounds {options.rounds}`"
    facts = {"command": command, **machine(device)}
    text = report(result, facts)
    sys.stdout.write(text)
    target = stem(options.out, "page", device.type)
    target.with_suffix(".md").write_text(text, encoding="utf-8")
    target.with_suffix(".json").write_text(json.dumps({"machine": facts, **asdict(result)}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
