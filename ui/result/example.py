"""The comparison that Compare shows before the first press: runs of the default pair with the
settings that the page begins with.

``python -m ui.result.example`` makes them anew and writes the file, which a test compares with runs
of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from mars_core.models import CATALOG, ModelPool
from mars_core.types import RunConfig, Trace
from ui.jobs.preload import first_configs

if TYPE_CHECKING:
    from mars_core.models import Pair

FILE = Path(__file__).with_name("example.json")


def stored() -> tuple[Trace, ...]:
    return TypeAdapter(tuple[Trace, ...]).validate_json(FILE.read_bytes())


def configs(pair: Pair) -> tuple[RunConfig, ...]:
    return first_configs(CATALOG[0], pair, 128)


def run_again() -> tuple[Trace, ...]:
    """Repeat the same runs on the CPU in float32, each after a warm-up."""
    from mars_core.session import Session

    pair = ModelPool(device="cpu", dtype="float32").get(CATALOG[0])
    session = Session(pair)
    for _ in range(2):
        runs = [session.start(config) for config in configs(pair)]
        for run in runs:
            for _step in run:
                pass
    return tuple(run.trace() for run in runs)


def write(traces: Sequence[Trace]) -> None:
    FILE.write_text(
        json.dumps([asdict(trace) for trace in traces], separators=(",", ":")) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    write(run_again())
