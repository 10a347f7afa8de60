"""Answers that another program saved, as lanes beside the runs of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from display.format import count, shorten
from evaluation.records.read import read_records, records_of
from mars_core.numbers import check_lanes
from mars_core.types import ANSWER, PromptConfig, Trace
from storage.importing import ImportedRun

MOST_PASTED = 4 * 2**20  # characters
PASTED = "The pasted answer"


def answers_beside(
    files: Sequence[str | Path], prompt: PromptConfig, lanes: int
) -> tuple[Trace, ...]:
    """Read all answers of the files, each as a run of this prompt; ``lanes``: those beside them.
    Raises ValueError for a file that cannot be read, one without a text, and too many lanes."""
    traces = [
        _beside(record, prompt, f"{file}", Path(file).name)
        for file in files
        for record in read_records(Path(file))
    ]
    check_lanes(lanes + len(traces))
    return tuple(traces)


def pasted_answer(text: str, prompt: PromptConfig) -> Trace:
    """Read one answer to this prompt, from hostile hands. Raises ValueError for a text that is too
    long, cannot be read, or has not one answer."""
    if len(text) > MOST_PASTED:
        size = f"{count(len(text))} characters; it must have at most {count(MOST_PASTED)}"
        raise ValueError(f"{PASTED} has {size}.")
    records = records_of(text, PASTED, "a pasted answer")
    if len(records) != 1:
        raise ValueError(f"{PASTED} has {count(len(records))} records; a lane takes one.")
    return _beside(records[0], prompt, PASTED, "pasted")


def _beside(record: ImportedRun, prompt: PromptConfig, title: str, name: str) -> Trace:
    if not record.trace.text:
        raise ValueError(f"{title} has a record without a text; it must be an answer.")
    config = record.trace.config
    environment = {**config.environment, ANSWER: shorten(name, 80)}
    config = replace(config, prompt=prompt, environment=environment)
    return replace(record.trace, config=config)
