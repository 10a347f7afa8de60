"""``python -m bench.load``: 50 clients at once and 1,000 runs in a row against a public page in a
separate process.

First every client's comparison runs alone; then all start at the same time, once with a queue long
enough for all and once with the page's own limit. Clients must not get another's text, see
another's comparison, or be overtaken.
"""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.common.command import measurement
from bench.common.page import served
from bench.common.report import Cell, Figure, Report, Table
from bench.load.crowd import Request, Response, crowd, in_turn, lists
from mars_core.models.catalog import BUNDLED_PROMPTS

QUICK_S, REFUSAL_S, DRIFT = 1.0, 2.0, 5.0  # goals, at most; the last one in %
SETTLED = 200  # runs after which memory is compared: caches are filled by then
RUNS_AN_OWNER = 50  # in a row; below the hourly limit of one


HEADS = (
    "room in the line",
    "at once",
    "served",
    "refused",
    "another's text",
    "another's comparison",
    "overtaken",
    "notified of their place",
)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Concurrent comparisons compared with the same ones run alone. ``queue_length``: queue length;
    ``foreign``: owners who see other comparisons; ``quick_s``: seconds of a quick endpoint
    meanwhile."""

    queue_length: str
    served: Sequence[Response]
    refused: Sequence[Response]
    different: int
    foreign: int
    quick_s: Sequence[float]

    @property
    def row(self) -> tuple[Cell, ...]:
        """A table row; the last cell counts served clients that were notified of their queue
        position."""
        served, refused, notified = (
            len(self.served),
            len(self.refused),
            sum(one.waiting > 0 for one in self.served),
        )
        found = (self.different, self.foreign, overtaken(self.served), notified)
        return (self.queue_length, served + refused, served, refused, *found)

    @property
    def figures(self) -> Iterator[Figure]:
        kinds = (
            ("served", [one.took_s for one in self.served], None),
            ("refused", [one.took_s for one in self.refused], REFUSAL_S),
            ("/rules meanwhile", self.quick_s, QUICK_S),
        )
        for name, values, most in kinds:
            if values:
                found = Figure.of(f"{name}, room {self.queue_length}", values, "s", most=most)
                yield replace(found, note=f"{found.note}; longest {max(values):.2f}")


@dataclass(frozen=True, slots=True)
class Row:
    """Runs in a row: resident bytes of the page's process after every ``every`` runs."""

    runs: int
    every: int
    resident: tuple[int, ...]
    failed: int

    @property
    def drift(self) -> float:
        """Growth of memory between the first runs and the last, as a share."""
        return (
            self.resident[-1] / self.resident[min(SETTLED // self.every, len(self.resident) - 1)]
            - 1
        )


def requests_of(clients: int, tokens: int) -> list[Request]:
    """One comparison per client, each with a different seed, prompt and owner."""
    owners = (f"client-{number:04d}-{os.urandom(8).hex()}" for number in range(clients))
    prompts = cycle(BUNDLED_PROMPTS)
    return [
        Request(owner, next(prompts), seed, max_new_tokens=tokens)
        for seed, owner in enumerate(owners)
    ]


def gather(
    url: str, queue_length: str, requests: Sequence[Request], alone: Mapping[int, tuple[str, ...]]
) -> Crowd:
    """All ``requests`` at once. ``alone``: seed → texts of the same comparison run alone."""
    responses, quick = asyncio.run(crowd(url, requests))
    done, refused = (
        [one for one in responses if one.texts],
        [one for one in responses if not one.texts],
    )
    theirs = asyncio.run(lists(url, [one.request.owner for one in done]))
    different = sum(one.texts != alone[one.request.seed] for one in done)
    foreign = sum(ids != [one.comparison] for one, ids in zip(done, theirs, strict=True))
    return Crowd(queue_length, done, refused, different, foreign, quick)


def overtaken(responses: Sequence[Response]) -> int:
    """Pairs of which one started more than a second before the other and was served after it."""
    pairs = ((one, other) for one in responses for other in responses)
    return sum(
        one.started_s + 1 < other.started_s and one.ended_s > other.ended_s for one, other in pairs
    )


def endure(url: str, process: psutil.Process, runs: int, tokens: int, every: int) -> Row:
    """Comparisons of two runs, one after the other."""
    resident, failed = [process.memory_info().rss], 0
    for first in range(0, runs, every):
        base, owned = requests_of(every // 2, tokens), RUNS_AN_OWNER // 2
        requests = [
            replace(one, owner=base[at - at % owned].owner, seed=first + at)
            for at, one in enumerate(base)
        ]
        failed += sum(not one.texts for one in asyncio.run(in_turn(url, requests)))
        resident.append(process.memory_info().rss)
    return Row(runs, every, tuple(resident), failed)


def measure(clients: int, runs: int, tokens: int) -> tuple[list[Crowd], Row]:
    crowds, public = [], partial(served, MARS_PUBLIC="on")
    for queue_length, limit in (("for all", f"waiting={clients}"), ("as set", "")):
        with (
            TemporaryDirectory(prefix="mars-load-") as name,
            public(Path(name), MARS_LIMITS=limit) as app,
        ):
            requests = requests_of(clients, tokens)
            alone = {one.request.seed: one.texts for one in asyncio.run(in_turn(app.url, requests))}
            again = [replace(one, owner=f"again-{one.owner}") for one in requests]
            crowds.append(gather(app.url, queue_length, again, alone))
    with TemporaryDirectory(prefix="mars-load-") as name, public(Path(name)) as app:
        return crowds, endure(app.url, app.process, runs, tokens, min(100, runs))


def report(crowds: Sequence[Crowd], row: Row) -> Report:
    table = Table(HEADS, [one.row for one in crowds], "Clients at once")
    figures = [figure for one in crowds for figure in one.figures]
    drift = f"either way, from run {SETTLED} to the last: {100 * row.drift:+.1f}"
    figures.append(
        Figure("drift of the page's memory", 100 * abs(row.drift), "%", drift, most=DRIFT)
    )
    resident = ", ".join(f"{value / 1e6:.0f}" for value in row.resident)
    notes = [
        *(f"refused with: “{one.refused[0].error}”" for one in crowds if one.refused),
        f"{row.runs} runs in a row, {row.failed} comparisons failed; resident MB of the page's process after every {row.every}: {resident}",
    ]
    data = {
        "crowds": [dict(zip(HEADS, one.row, strict=True)) for one in crowds],
        "row": asdict(row),
    }
    return Report("Load", notes, figures, [table], data)


@measurement("load", clients=50, runs=(1000, 2), max_new_tokens=32)
def main(options: Namespace) -> Report:
    return report(*measure(options.clients, options.runs, options.max_new_tokens))
