"""Rows of answers as Spec-Bench (evaluation/eval.py) and EAGLE (evaluation/gen_ea_answer_*.py) write them, and their ``speed.py`` reads.

``decoding_steps`` is Spec-Bench's word for target passes, ``idxs`` EAGLE's for the number of the last one, counted from 0.
"""

from __future__ import annotations

from typing import Any

from evaluation.report.answered import Answer, Answered


def rows(answered: Answered, suite: int) -> list[dict[str, Any]]:
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
    """Lists have one entry a turn, but for ``accept_lengths``: one a step, all turns together. Seconds include the prefill."""
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
