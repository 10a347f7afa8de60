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
        for record in read_records(Path(file)):
            if not record.trace.text:
                raise ValueError(f"{file} has a record without a text; it must be an answer.")
            traces.append(_beside(record.trace, Path(file).name, prompt))
    check_lanes(lanes + len(traces))
    return tuple(traces)


def _beside(trace: Trace, file: str, prompt: PromptConfig) -> Trace:
    environment = {**trace.config.environment, ANSWER: shorten(file, 80)}
    return replace(trace, config=replace(trace.config, prompt=prompt, environment=environment))
