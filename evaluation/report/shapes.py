"""A study as JSON in the field's shapes, so that other tools read it: lm-eval's results and samples, Spec-Bench's and EAGLE's answers.

A lane at one temperature is what these tools call a model. The seeds of a study are lm-eval's repeats, and Spec-Bench's choices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

from evaluation.report import lm_eval_files
from evaluation.report.answered import Answer, Answered, file_name, read_answered
from storage import RunStore


def write_lm_eval(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """For each lane and temperature a folder as lm-eval's ``--output_path`` makes it: ``results_TIME.json``, ``samples_SUITE_TIME.jsonl``.

    ``arguments`` hold the user's text of each turn, without what the chat template adds. Failed answers are left out.
    Raises StorageError; ValueError for a study of another version.
    """
    written: list[Path] = []
    for answered in read_answered(store, study_id, steps=False):
        suites = enumerate(answered.plan.suites)
        samples = {suite.name: lm_eval_files.samples(answered, number) for number, suite in suites}
        results = lm_eval_files.results(answered, samples) | {"mars_study": study_id}
        saved_at = answered.saved_at.astimezone(UTC).replace(tzinfo=None)
        time = saved_at.isoformat(timespec="microseconds").replace(":", "-")
        written.append(_write(folder / answered.name / f"results_{time}.json", [results], indent=2))
        for suite, rows in samples.items():
            if rows:
                written.append(_write(folder / answered.name / f"samples_{file_name(suite)}_{time}.jsonl", rows))
    return tuple(written)


def write_answers(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """For each suite, lane and temperature ``SUITE/model_answer/MODEL.jsonl``, a line a question, as Spec-Bench (evaluation/eval.py) and
    EAGLE (evaluation/gen_ea_answer_*.py) write them, and their ``speed.py`` reads.

    Failed answers are left out. Raises StorageError; ValueError for a study of another version.
    """
    written: list[Path] = []
    for answered in read_answered(store, study_id, steps=True):
        for number, suite in enumerate(answered.plan.suites):
            if rows := _questions(answered, number):
                path = folder / file_name(suite.name) / "model_answer" / f"{answered.name}.jsonl"
                written.append(_write(path, rows))
    return tuple(written)


def _questions(answered: Answered, suite: int) -> list[dict[str, Any]]:
    """A row for every question, in the order of the suite; ``choices``: one for every seed."""
    return [
        {
            "question_id": int(item.id) if item.id.isascii() and item.id.isdecimal() else item.id,
            "category": item.category or answered.plan.suites[suite].name,
            "answer_id": answers[0].runs[0].id,
            "model_id": answered.name,
            "choices": [_choice(answer) for answer in answers],
            "tstamp": max(answer.saved_at for answer in answers).timestamp(),
        }
        for _, item, answers in answered.items(suite)
    ]


def _choice(answer: Answer) -> dict[str, Any]:
    """Lists have one entry a turn, but for ``accept_lengths``: one a step, all turns together. Seconds include the prefill.

    ``decoding_steps`` is Spec-Bench's word for target passes, ``idxs`` EAGLE's for the number of the last one, counted from 0.
    """
    summaries = [run.summary for run in answer.runs]
    return {
        "index": answer.task.repeat,
        "turns": list(answer.texts),
        "decoding_steps": [summary.steps for summary in summaries],
        "idxs": [summary.steps - 1 for summary in summaries],
        "new_tokens": [summary.new_tokens for summary in summaries],
        "wall_time": [summary.wall_s for summary in summaries],
        "accept_lengths": [length for turn in answer.lengths for length in turn],
    }


def _write(path: Path, rows: Iterable[Mapping[str, Any]], indent: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False, indent=indent) + "\n" for row in rows)
    return path
