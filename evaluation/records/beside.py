"""Answers that another program saved, as lanes beside the runs of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from display.format import shorten
from evaluation.records.read import read_records
from mars_core.numbers import check_lanes
from mars_core.types import ANSWER, PromptConfig, Trace


def answers_beside(
    files: Sequence[str | Path], prompt: PromptConfig, lanes: int
) -> tuple[Trace, ...]:
    """Read all answers of the files, each as a run of this prompt; ``lanes``: those beside them.
    Raises ValueError for a file that cannot be read, one without a text, and too many lanes."""
    traces = list[Trace]()
    for file in files:
        for trace in (record.trace for record in read_records(Path(file))):
            if not trace.text:
                raise ValueError(f"{file} has a record without a text; it must be an answer.")
            environment = {**trace.config.environment, ANSWER: shorten(Path(file).name, 80)}
            config = replace(trace.config, prompt=prompt, environment=environment)
            traces.append(replace(trace, config=config))
    check_lanes(lanes + len(traces))
    return tuple(traces)
