"""Exports a study's answers as JSON lines in the format of Spec-Bench and EAGLE.

A lane at one temperature is a model there; the seeds of a study are its choices.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from evaluation.report.texts import Answered, StoredAnswer, read_answered
from mars_core.types import UNKNOWN
from storage import RunStore

Accepted = Mapping[str, tuple[int, ...]]  # drafted tokens by step, of each run


def write_answers(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """Write for each suite, lane and temperature ``SUITE/model_answer/MODEL.jsonl``, one line per
    question, as Spec-Bench (evaluation/eval.py) and EAGLE (evaluation/gen_ea_answer_*.py) write
    them, and their ``speed.py`` reads.

    Failed answers and those with deleted runs are left out. Raises StorageError; ValueError for a study of another version.
    """
    written = dict[Path, None]()
    for answered in read_answered(store, study_id):
        plan, runs = answered.plan, [run.id for each in answered.answers for run in each.runs]
        accepted = store.accepted_by_step(runs)
        lane = plan.lanes[answered.lane]
        model = (
            f"{plan.models.target.name.rstrip('/').rpartition('/')[2]}-{lane.name}-{lane.drafts}"
        )
        name = f"{_file_name(model)}-temperature-{answered.temperature:g}"
        for number, suite in enumerate(plan.suites):
            path = folder / _file_name(suite.name) / "model_answer" / f"{name}.jsonl"
            if path in written:
                path = path.with_stem(f"{name}-lane-{answered.lane}")
            if rows := list(_questions(answered, number, path.stem, accepted)):
                written[_write(path, rows)] = None
    return tuple(written)


def _questions(
    answered: Answered, suite: int, model: str, accepted: Accepted
) -> Iterator[dict[str, Any]]:
    """Yield a row for every question, in the order of the suite; ``choices``: one per seed."""
    answers = sorted(
        (each for each in answered.answers if each.task.suite == suite),
        key=lambda each: (each.task.item, each.task.repeat),
    )
    for number, group in groupby(answers, lambda each: each.task.item):
        same, item = list(group), answered.plan.suites[suite].items[number]
        yield {
            "question_id": int(item.id) if item.id.isascii() and item.id.isdecimal() else item.id,
            "category": item.category or answered.plan.suites[suite].name,
            "answer_id": same[0].runs[0].id,
            "model_id": model,
            "choices": [_choice(answer, accepted) for answer in same],
            "tstamp": max(answer.stored.created_at for answer in same).timestamp(),
        }


def _choice(answer: StoredAnswer, accepted: Accepted) -> dict[str, Any]:
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
        "accept_lengths": [
            length
            for run in answer.runs
            for length in _lengths(accepted.get(run.id, ()), run.summary.new_tokens)
        ],
    }


def _lengths(accepted: tuple[int, ...], new_tokens: int) -> tuple[int, ...]:
    """Return the tokens per step: the accepted drafts and one more; in the last step the remaining
    ones, as the text may end earlier.

    Empty where a server did not report its steps.
    """
    if UNKNOWN in accepted:
        return ()
    lengths = [one + 1 for one in accepted]
    return tuple(lengths[:-1]) + ((new_tokens - sum(lengths[:-1]),) if lengths else ())


def _known(count: int) -> int | None:
    return None if count == UNKNOWN else count


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    return path


def _file_name(text: str) -> str:
    """Letters, digits and ``.=-``; other characters become underscores."""
    return re.sub(r"[^\w.=-]+", "_", text, flags=re.ASCII).strip("_.-")[:150] or "unnamed"
