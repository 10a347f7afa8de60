"""Clients that request comparisons from one page at the same time, over plain HTTP, and the responses with their times."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

PATIENCE_S = 900.0
QUICK_S = 0.5  # between two calls of a quick endpoint


@dataclass(frozen=True, slots=True)
class Request:
    """One comparison of one owner. ``owner``: the secret that a program sends, at least 22 characters."""

    owner: str
    prompt: str
    seed: int
    rules: tuple[str, ...] = ("strict", "mars(theta=0.9)")
    temperature: float = 1.0
    max_new_tokens: int = 32


@dataclass(frozen=True, slots=True)
class Response:
    """``texts``: of the runs, empty where the request was refused; ``error``: the message of the refusal; ``waiting``: how often a message
    said that the client waits; ``started_s``, ``ended_s``: on this process's clock."""

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
    body = {
        "prompt": request.prompt, "rules": list(request.rules), "temperature": request.temperature,
        "max_new_tokens": request.max_new_tokens, "seed": request.seed,
    }  # fmt: skip
    started, waiting, last, error = time.monotonic(), 0, {}, ""
    async for event, data in _call(client, url, "compare", body, request.owner):
        if event == "error":
            error = _sentence(data)
        elif data:
            last = data[0]
            waiting += "before you" in str(last.get("message", ""))
    runs = last.get("runs", [])
    texts = tuple(run["text"] for run in runs)
    return Response(request, texts, str(last.get("id", "")), error, waiting, started, time.monotonic())


async def crowd(url: str, requests: Sequence[Request]) -> tuple[list[Response], list[float]]:
    """All at once; and the seconds that the quick endpoint /rules took meanwhile, twice a second."""
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
    """The ids of the comparisons that each owner sees."""
    async with _client() as client:
        return [
            [
                row["id"]
                async for event, data in _call(client, url, "comparisons", {"limit": 200}, owner)
                if event == "complete" and data
                for row in data[0]
            ]
            for owner in owners
        ]


def _client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=200)
    return httpx.AsyncClient(timeout=httpx.Timeout(PATIENCE_S, connect=60), limits=limits)


async def _call(client: httpx.AsyncClient, url: str, name: str, body: dict[str, Any], owner: str) -> Any:
    """Events of an endpoint as (name, data); Gradio takes a call first and sends its events from a second address."""
    address, headers = f"{url}gradio_api/call/v2/{name}", {"x-mars-visitor": owner}
    answer = await client.post(address, json=body, headers=headers)
    if answer.status_code != 200:
        yield "error", answer.text
        return
    place = f"{url}gradio_api/call/{name}/{answer.json()['event_id']}"
    async with client.stream("GET", place, headers=headers) as stream:
        event = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield event, json.loads(line.removeprefix("data: "))


def _sentence(data: object) -> str:
    return str(data.get("error", data)) if isinstance(data, dict) else str(data)
