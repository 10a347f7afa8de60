"""Clients that request comparisons from one page at the same time, over plain HTTP, and the
responses with their times."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

PATIENCE_S = 900.0
QUICK_S = 0.5  # between two calls of a quick endpoint


@dataclass(frozen=True, slots=True)
class Request:
    """One comparison of one owner. ``owner``: the secret of the client, at least 22 characters."""

    owner: str
    prompt: str
    seed: int
    rules: tuple[str, ...] = ("strict", "mars(theta=0.9)")
    temperature: float = 1.0
    max_new_tokens: int = 32


@dataclass(frozen=True, slots=True)
class Response:
    """``texts``: of the runs, empty where the request was refused; ``error``: the message of the
    refusal; ``waiting``: number of messages that the client is waiting; ``started_s``, ``ended_s``:
    on this process's clock."""

    request: Request
    texts: tuple[str, ...]
    comparison: str
    error: str
    waiting: int
    started_s: float
    ended_s: float

    @property
    def took_s(self) -> float:
        return self.ended_s - self.started_s


async def compare(client: httpx.AsyncClient, url: str, request: Request) -> Response:
    """One comparison, from the call to its result or its refusal."""
    body = {name: value for name, value in asdict(request).items() if name != "owner"}
    started, waiting, last, error = time.monotonic(), 0, {}, ""
    async for event, data in _call(client, url, "compare", body, request.owner):
        if event == "error":
            error = str(data.get("error", data)) if isinstance(data, dict) else str(data)
        elif data:
            last = data[0]
            waiting += "before you" in str(last.get("message", ""))
    texts = tuple(run["text"] for run in last.get("runs", []))
    return Response(
        request, texts, str(last.get("id", "")), error, waiting, started, time.monotonic()
    )


async def crowd(url: str, requests: Sequence[Request]) -> tuple[list[Response], list[float]]:
    """All concurrently; and the response times of the quick endpoint /rules meanwhile, twice per
    second."""
    quick: list[float] = []
    async with _client() as client:
        running = asyncio.gather(*(compare(client, url, each) for each in requests))
        while not running.done():
            begun = time.monotonic()
            async for _ in _call(client, url, "rules", {}, "a-visitor-who-only-looks-around"):
                pass
            quick.append(time.monotonic() - begun)
            await asyncio.wait([running], timeout=QUICK_S)
        return list(running.result()), quick


async def in_turn(url: str, requests: Sequence[Request]) -> list[Response]:
    """One after the other."""
    async with _client() as client:
        return [await compare(client, url, each) for each in requests]


async def lists(url: str, owners: Sequence[str]) -> list[list[str]]:
    """The ids of the comparisons visible to each owner."""
    found = []
    async with _client() as client:
        for owner in owners:
            events = [
                data
                async for event, data in _call(client, url, "comparisons", {"limit": 200}, owner)
                if event == "complete"
            ]
            found.append([row["id"] for data in events if data for row in data[0]])
    return found


def _client() -> httpx.AsyncClient:
    timeout, limits = httpx.Timeout(PATIENCE_S, connect=60), httpx.Limits(max_connections=200)
    return httpx.AsyncClient(timeout=timeout, limits=limits)


async def _call(
    client: httpx.AsyncClient, url: str, name: str, body: dict[str, Any], owner: str
) -> Any:
    """Events of an endpoint as (name, data); Gradio takes a call first and sends its events from a
    second address."""
    headers = {"x-mars-visitor": owner}
    answer = await client.post(f"{url}gradio_api/call/v2/{name}", json=body, headers=headers)
    if answer.status_code != 200:
        yield "error", answer.text
        return
    place = f"{url}gradio_api/call/{name}/{answer.json()['event_id']}"
    async with client.stream("GET", place, headers=headers) as stream:
        event = ""
        async for line in stream.aiter_lines():
            kind, _, value = line.partition(": ")
            event = value if kind == "event" else event
            if kind == "data":
                yield event, json.loads(value)
