"""What Compare shows before the first press, and once one of the example prompts is chosen: stored
runs of the default pair with the settings that the page begins with.

``python -m ui.result.example`` makes them anew and writes the files, one a prompt; a test compares
the first with runs of its own.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from mars_core.models import CATALOG, ModelPool
from mars_core.types import Trace
from storage import StoredComparison
from ui.jobs.preload import first_configs
from ui.result.result import unsaved

if TYPE_CHECKING:
    from mars_core.models import Pair

FOLDER = Path(__file__).with_name("examples")
PROMPTS = CATALOG[0].prompts


def file(prompt: int) -> Path:
    """Return the file of an example prompt, by its place among them."""
    return FOLDER / f"{prompt + 1}.json.gz"


def stored(prompt: int = 0) -> tuple[Trace, ...]:
    """Return the runs of an example prompt: strict, then MARS."""
    return TypeAdapter(tuple[Trace, ...]).validate_json(gzip.decompress(file(prompt).read_bytes()))


def comparison(prompt: int = 0) -> StoredComparison:
    """Return the runs of an example prompt as a comparison."""
    return unsaved(dict(enumerate(stored(prompt))), f"example {prompt}")


def loaded() -> Pair:
    """Load the default pair as the examples were made: on the CPU in float32."""
    return ModelPool(device="cpu", dtype="float32").get(CATALOG[0])


def run_again(pair: Pair, prompt: int = 0) -> tuple[Trace, ...]:
    """Repeat the runs of an example prompt."""
    from mars_core.session import Session

    session = Session(pair)
    runs = [session.start(each) for each in first_configs(CATALOG[0], pair, 128, PROMPTS[prompt])]
    for run in runs:
        for _step in run:
            pass
    return tuple(run.trace() for run in runs)


if __name__ == "__main__":
    pair = loaded()
    FOLDER.mkdir(exist_ok=True)
    for number in range(len(PROMPTS)):
        rounds = [run_again(pair, number) for _ in range(4)]  # of which the first warms up
        # of the machine's other work the least is in the fastest
        traces = min(rounds, key=lambda runs: sum(run.summary.wall_s for run in runs))
        text = json.dumps([asdict(trace) for trace in traces], separators=(",", ":"))
        file(number).write_bytes(gzip.compress(text.encode(), mtime=0))
