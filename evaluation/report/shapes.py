"""Exports a study's answers as JSON lines in the format of Spec-Bench and EAGLE.

A lane at one temperature is a model there; the seeds of a study are its choices.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluation.report.texts import Answered, StoredAnswer, file_name, read_answered
from mars_core.types import UNKNOWN
from storage import RunStore


def write_answers(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """Write for each suite, lane and temperature ``SUITE/model_answer/MODEL.jsonl``, one line per
    question, as Spec-Bench (evaluation/eval.py) and EAGLE (evaluation/gen_ea_answer_*.py) write
    them, and their ``speed.py`` reads.

    Failed answers and those with deleted runs are left out. Raises StorageError; ValueError for a study of another version.
    """
    written: list[Path] = []
    for answered in read_answered(store, study_id, steps=True):
        for number, suite in enumerate(answered.plan.suites):
            if rows := _questions(answered, number):
                path = folder / file_name(suite.name) / "model_answer" / f"{answered.name}.jsonl"
                written.append(_write(path, rows))
    return tuple(written)


def _questions(answered: Answered, suite: int) -> list[dict[str, Any]]:
    """Return a row for every question, in the order of the suite; ``choices``: one per seed."""
    return [
        {
            "question_id": int(item.id) if item.id.isascii() and item.id.isdecimal() else item.id,
            "category": item.category or answered.plan.suites[suite].name,
            "answer_id": answers[0].runs[0].id,
            "model_id": answered.name,
            "choices": [_choice(answer) for answer in answers],
            "tstamp": max(answer.stored.created_at for answer in answers).timestamp(),
        }
        for _, item, answers in answered.items(suite)
    ]


def _choice(answer: StoredAnswer) -> dict[str, Any]:
    """Lists have one entry per turn, except ``accept_lengths``: one per step of all turns. Seconds
    include the prefill.

    ``decoding_steps`` is Spec-Bench's name for target passes, ``idxs`` EAGLE's for the index of the
    last one, from 0.
    """
    summaries = [run.summary for run in answer.runs]
    return {
        "index": answer.task.repeat,
        "turns": list(answer.texts),
        "decoding_steps": [_known(summary.steps) for summary in summaries],
        "idxs": [None if summary.steps == UNKNOWN else summary.steps - 1 for summary in summaries],
        "new_tokens": [_known(summary.new_tokens) for summary in summaries],
        "wall_time": [
            None if math.isnan(summary.wall_s) else summary.wall_s for summary in summaries
        ],
        "accept_lengths": [length for turn in answer.lengths for length in turn],
    }


def _known(count: int) -> int | None:
    return None if count == UNKNOWN else count


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    return path
