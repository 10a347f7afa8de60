"""``python -m bench.load``: 50 clients at once and 1,000 runs in a row against the running public page, in a process of its own.

First every client's comparison is made alone; then all of them ask at the same moment, once with room for all in the line and once
with the page's own limit. Nobody may get another's text, see another's comparison, or be passed over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil
import torch

from bench.crowd import Got, Wanted, crowd, in_turn, lists
from bench.machine import RESULTS, machine, stem
from bench.page import ROOT, answers
from mars_core.models.catalog import BUNDLED_PROMPTS

QUICK_GOAL_S, REFUSAL_GOAL_S, MEMORY_GOAL = 1.0, 2.0, 0.05
SETTLED = 200  # runs after which memory is compared: by then all that is made once is there
RUNS_AN_OWNER = 50  # in a row; below the hourly limit of one


@dataclass(frozen=True, slots=True)
class Crowd:
    """One crowd beside the same comparisons made alone. ``quick_s``: of a quick endpoint meanwhile; ``foreign``: owners whose list is
    not their one comparison; ``overtaken``: how often one was served before another who had asked a second earlier."""

    room: str  # in the line
    clients: int
    served: int
    refused: int
    different: int
    foreign: int
    overtaken: int
    told: int  # of the served: were told where in the line they are
    served_s: tuple[float, ...]
    refused_s: tuple[float, ...]
    quick_s: tuple[float, ...]
    refusal: str


@dataclass(frozen=True, slots=True)
class Row:
    """Runs in a row: resident bytes of the page's process after every ``every`` runs."""

    runs: int
    every: int
    resident: tuple[int, ...]
    failed: int

    @property
    def drift(self) -> float:
        """How much more the process holds at the end than after the first runs, as a share."""
        return self.resident[-1] / self.resident[min(SETTLED // self.every, len(self.resident) - 1)] - 1


@contextmanager
def public_page(folder: Path, **environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """A public page with a database of its own: its address and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = {
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "MARS_PUBLIC": "on",
        "MARS_DATABASE_URL": f"sqlite:///{folder}/runs.db",
    }
    with (folder / "log").open("w") as log:
        command = [sys.executable, "app.py"]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | said | environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}/"
            answers(url, time.monotonic())
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=30)


def wanted(clients: int, tokens: int) -> list[Wanted]:
    """A comparison a client, each with a seed, a prompt and an owner of its own."""
    return [
        Wanted(f"client-{number:04d}-{os.urandom(8).hex()}", BUNDLED_PROMPTS[number % len(BUNDLED_PROMPTS)], number, max_new_tokens=tokens)
        for number in range(clients)
    ]  # fmt: skip


def gather(url: str, room: str, asked: Sequence[Wanted], alone: Mapping[int, tuple[str, ...]]) -> Crowd:
    """All of ``asked`` at once. ``alone``: seed → texts of the same comparison made alone."""
    got, quick = asyncio.run(crowd(url, asked))
    served, refused = [one for one in got if one.texts], [one for one in got if not one.texts]
    theirs = asyncio.run(lists(url, [one.wanted.owner for one in served]))
    return Crowd(
        room=room,
        clients=len(asked),
        served=len(served),
        refused=len(refused),
        different=sum(one.texts != alone[one.wanted.seed] for one in served),
        foreign=sum(ids != [one.comparison] for one, ids in zip(served, theirs, strict=True)),
        overtaken=overtaken(served),
        told=sum(one.waiting > 0 for one in served),
        served_s=tuple(one.took_s for one in served),
        refused_s=tuple(one.took_s for one in refused),
        quick_s=tuple(quick),
        refusal=refused[0].error if refused else "",
    )


def overtaken(got: Sequence[Got]) -> int:
    """Pairs of which one asked a second or more before the other and was served after it."""
    pairs = ((one, other) for one in got for other in got)
    return sum(one.asked_s + 1 < other.asked_s and one.ended_s > other.ended_s for one, other in pairs)


def endure(url: str, process: psutil.Process, runs: int, tokens: int, every: int) -> Row:
    """Comparisons of two runs, one after the other."""
    resident, failed = [process.memory_info().rss], 0
    for first in range(0, runs, every):
        base = wanted(every // 2, tokens)
        asked = [
            replace(one, owner=base[at - at % (RUNS_AN_OWNER // 2)].owner, seed=first + at)
            for at, one in enumerate(base)
        ]
        failed += sum(not one.texts for one in asyncio.run(in_turn(url, asked)))
        resident.append(process.memory_info().rss)
    return Row(runs, every, tuple(resident), failed)


def measure(clients: int, runs: int, tokens: int) -> tuple[list[Crowd], Row]:
    crowds = []
    for room, limit in (("for all", f"waiting={clients}"), ("as set", "")):
        with TemporaryDirectory(prefix="mars-load-") as name, public_page(Path(name), MARS_LIMITS=limit) as (url, _):
            asked = wanted(clients, tokens)
            alone = {one.wanted.seed: one.texts for one in asyncio.run(in_turn(url, asked))}
            again = [replace(one, owner=f"again-{one.owner}") for one in asked]
            crowds.append(gather(url, room, again, alone))
    with TemporaryDirectory(prefix="mars-load-") as name, public_page(Path(name)) as (url, process):
        return crowds, endure(url, process, runs, tokens, min(100, runs))


def report(crowds: Sequence[Crowd], row: Row, facts: Mapping[str, str]) -> str:
    """Markdown: goals first, then the numbers."""
    lines = ["# Load", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    heads = (
        "at once",
        "room in the line",
        "served",
        "refused",
        "another's text",
        "another's comparison",
        "overtaken",
        "told their place",
    )
    lines += [f"| {' | '.join(heads)} |", "|---:" * len(heads) + "|"]
    for one in crowds:
        numbers = (one.clients, one.room, one.served, one.refused, one.different, one.foreign, one.overtaken, one.told)
        lines.append(f"| {' | '.join(map(str, numbers))} |")
    lines += ["", "| what | median, s | longest, s | goal: at most |", "|---|---:|---:|---:|"]
    for one in crowds:
        for name, values, goal in (
            ("served", one.served_s, None), ("refused", one.refused_s, REFUSAL_GOAL_S), ("/rules meanwhile", one.quick_s, QUICK_GOAL_S)
        ):  # fmt: skip
            if values:
                aim = "–" if goal is None else f"{goal:g} (median)"
                lines.append(f"| {name}, room {one.room} | {median(values):.2f} | {max(values):.2f} | {aim} |")
    lines += ["", *(f"Refused with: “{one.refusal}”" for one in crowds if one.refusal), ""]
    held = ", ".join(f"{value / 1e6:.0f}" for value in row.resident)
    lines += [
        f"{row.runs} runs in a row, {row.failed} comparisons failed; resident MB of the page's process after every {row.every}: {held}.",
        f"From run {SETTLED} to the last: {row.drift:+.1%} (goal: within {MEMORY_GOAL:.0%}).",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    crowds, row = measure(options.clients, options.runs, options.max_new_tokens)
    command = f"`python -m bench.load --clients {options.clients} --runs {options.runs} --max-new-tokens {options.max_new_tokens}`"
    facts = {"command": command, **machine(torch.device("cpu"))}
    text = report(crowds, row, facts)
    sys.stdout.write(text)
    path = stem(options.out, "load", "cpu")
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    found = {"machine": facts, "crowds": [asdict(one) for one in crowds], "row": asdict(row)}
    path.with_suffix(".json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
