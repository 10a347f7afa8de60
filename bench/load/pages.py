"""``python -m bench.load.pages``: memory of the page's process for each open page that shows a comparison of two runs of 2,048 tokens.

A page is a session with its connection to the server; each opens the comparison in History, by its address, and selects a step of
its draft trees.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import torch

from bench.common.command import Command
from bench.common.decoding import complete, config_of
from bench.common.page import Served, served
from bench.common.report import Figure, Report
from bench.common.shapes import small
from bench.coupled import coupled_pair, random_prompt
from mars_core.types import DrafterConfig, RuleConfig
from storage import RunStore

CPU = torch.device("cpu")
MAX_KB = 200.0  # goal of an open page
WARM = 20  # pages before the first measurement


def save_comparison(url: str, tokens: int) -> str:
    """Two runs of a small random pair; the comparison's id."""
    pair = coupled_pair(small(2048), 0.1, CPU, torch.float32)
    with RunStore(url) as store:
        comparison = ""
        for lane, rule in enumerate((RuleConfig("strict"), RuleConfig("mars", {"theta": 0.9}))):
            config = config_of(pair, random_prompt(64, 0), DrafterConfig("model", k=5), 1.0, tokens, 0, rule=rule)
            comparison = comparison or store.new_comparison(config.prompt)
            store.save_run(comparison, complete(pair, config), lane=lane, order=lane)
    return comparison


class Pages:
    """Open pages; they close with ``stack``."""

    def __init__(self, client: httpx.AsyncClient, stack: AsyncExitStack, config: Any, comparison: str) -> None:
        self._client, self._stack, self._comparison = client, stack, comparison
        named = {str(each["api_name"]): each for each in config["dependencies"]}
        self._go = named["go"]
        moved = [each for name, each in named.items() if name.startswith("move")]
        self._step = moved[-1]  # of History, which is built last

    async def open(self, number: int) -> None:
        session = f"bench{number}"
        beat = await self._stack.enter_async_context(self._client.stream("GET", f"/gradio_api/heartbeat/{session}"))
        assert beat.status_code == 200
        shown = await self._do(session, self._go, {"comparison": self._comparison, "tab": "history"})
        assert self._comparison in shown, "the comparison is not shown"
        await self._do(session, self._step, None, [None, 0, 3])

    async def _do(self, session: str, event: Any, event_data: Any, data: Sequence[Any] = ()) -> str:
        values = [*data, *[None] * (len(event["inputs"]) - len(data))]
        body = {"fn_index": event["id"], "data": values, "event_data": event_data, "session_hash": session}
        answer = await self._client.post("/gradio_api/run/predict", json=body)
        answer.raise_for_status()
        return answer.text


async def growth(page: Served, comparison: str, pages: int) -> float:
    """Bytes per page."""
    limits = httpx.Limits(max_connections=pages + WARM + 10)
    async with (
        httpx.AsyncClient(base_url=page.url, timeout=120, limits=limits) as client,
        AsyncExitStack() as stack,
    ):
        while (await client.get("/ready")).status_code != 200:  # the bundled pair is in memory then
            await asyncio.sleep(1)
        opened = Pages(client, stack, (await client.get("/config")).json(), comparison)
        for number in range(WARM):
            await opened.open(number)
        before = page.process.memory_info().rss
        for number in range(WARM, WARM + pages):
            await opened.open(number)
        return float(page.process.memory_info().rss - before) / pages


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.load.pages", __doc__, pages=200, max_new_tokens=2048)
    options = command.read(arguments)
    with TemporaryDirectory(prefix="mars-pages-") as name:
        comparison = save_comparison(f"sqlite:///{name}/runs.db", options.max_new_tokens)
        with served(Path(name)) as page:
            found = asyncio.run(growth(page, comparison, options.pages))
    figure = Figure("memory of an open page", found / 1e3, "kB", f"{options.pages} pages", most=MAX_KB)
    title = f"Open pages that show a comparison of 2 × {options.max_new_tokens:,} tokens"
    return command.publish(Report(title, (), [figure]), "open-pages", CPU)


if __name__ == "__main__":
    sys.exit(main())
