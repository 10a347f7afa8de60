"""``python -m bench.load.pages``: memory of the page's process for each open page that shows a
comparison of two runs of 2,048 tokens.

A page is a session with its connection to the server; each opens the comparison in History, by its
address, and selects a step of its draft trees.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from bench.common.command import measurement
from bench.common.page import Served, served
from bench.common.report import Figure, Report
from bench.coupled import small_run
from mars_core.types import RuleConfig
from storage import RunStore

MAX_KB = 200.0  # goal of an open page
WARM = 20  # pages before the first measurement


def save_comparison(url: str, tokens: int) -> str:
    """Two runs of a small random pair; the comparison's id."""
    runs = [
        small_run(tokens, rule)
        for rule in (RuleConfig("strict"), RuleConfig("mars", {"theta": 0.9}))
    ]
    with RunStore(url) as store:
        comparison = store.new_comparison(runs[0].config.prompt)
        for lane, run in enumerate(runs):
            store.save_run(comparison, run, lane=lane, order=lane)
    return comparison


async def growth(page: Served, comparison: str, pages: int) -> float:
    """Bytes per page."""
    limits = httpx.Limits(max_connections=pages + WARM + 10)
    async with (
        httpx.AsyncClient(base_url=page.url, timeout=120, limits=limits) as client,
        AsyncExitStack() as stack,
    ):
        while (await client.get("/ready")).status_code != 200:  # the bundled pair is in memory then
            await asyncio.sleep(1)
        events = {
            str(each["api_name"]): each
            for each in (await client.get("/config")).json()["dependencies"]
        }
        go = events["go"]
        step = [each for name, each in events.items() if name.startswith("move")][
            -1
        ]  # of History, which is built last

        async def do(session: str, event: Any, event_data: Any, *data: Any) -> str:
            values = [*data, *[None] * (len(event["inputs"]) - len(data))]
            body = {
                "fn_index": event["id"],
                "data": values,
                "event_data": event_data,
                "session_hash": session,
            }
            answer = await client.post("/gradio_api/run/predict", json=body)
            return answer.raise_for_status().text

        before = 0
        for number in range(WARM + pages):
            before = page.process.memory_info().rss if number == WARM else before
            session = f"bench{number}"
            beat = await stack.enter_async_context(
                client.stream("GET", f"/gradio_api/heartbeat/{session}")
            )
            assert beat.status_code == 200
            assert comparison in await do(session, go, {"comparison": comparison, "tab": "history"})
            await do(session, step, None, None, 0, 3)
        return float(page.process.memory_info().rss - before) / pages


@measurement("open-pages", pages=200, max_new_tokens=2048)
def main(options: Namespace) -> Report:
    with TemporaryDirectory(prefix="mars-pages-") as name:
        comparison = save_comparison(f"sqlite:///{name}/runs.db", options.max_new_tokens)
        with served(Path(name)) as page:
            found = asyncio.run(growth(page, comparison, options.pages))
    figure = Figure(
        "memory of an open page", found / 1e3, "kB", f"{options.pages} pages", most=MAX_KB
    )
    return Report(
        f"Open pages that show a comparison of 2 × {options.max_new_tokens:,} tokens", (), [figure]
    )
