"""Exports a study as JSON in the formats of other tools: lm-eval's results and samples,
Spec-Bench's and EAGLE's answers.

A lane at one temperature is a model there. The seeds of a study are lm-eval's repeats, and
Spec-Bench's choices. lm-eval's files follow version 0.4.13 (its result_schema.py), which need not
be installed: a score of a document is the mean over its seeds; the standard error is that of the
mean over documents, as lm-eval computes it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from evaluation.commands import model_args
from evaluation.harness.telemetry import POOLED, pooled
from evaluation.item import Item
from evaluation.report.texts import Answered, StoredAnswer, file_name, read_answered
from mars_core.types import UNKNOWN
from storage import RunStore

Sample = dict[str, Any]
VERSION = 1.0  # of our tasks
# fields of a results file that have one value a task
OF_TASKS = (
    *("results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better"),
    *("n-samples", "task_hashes"),
)
TELEMETRY = ("new_tokens", "steps", "wall_s", "relaxed", "tv_sum", "log_likelihood")


def write_lm_eval(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """For each lane and temperature a folder as written by lm-eval's ``--output_path``:
    ``results_TIME.json``, ``samples_SUITE_TIME.jsonl``.

    ``arguments`` are the user's text of each turn, without the chat template. Failed answers are
    left out. Raises StorageError; ValueError for a study of another version.
    """
    written: list[Path] = []
    for answered in read_answered(store, study_id, steps=False):
        samples = {
            suite.name: _samples(answered, number)
            for number, suite in enumerate(answered.plan.suites)
        }
        results = _results(answered, samples) | {"mars_study": study_id}
        saved_at = answered.saved_at.astimezone(UTC).replace(tzinfo=None)
        time = saved_at.isoformat(timespec="microseconds").replace(":", "-")
        written.append(_write(folder / answered.name / f"results_{time}.json", [results], indent=2))
        for suite, rows in samples.items():
            if rows:
                written.append(
                    _write(
                        folder / answered.name / f"samples_{file_name(suite)}_{time}.jsonl", rows
                    )
                )
    return tuple(written)


def _samples(answered: Answered, suite: int) -> list[Sample]:
    """One for every document and filter; a document without a score has filter ``none`` and no
    metric. ``mars``: by seed; ``run_ids`` are those of the database, one per turn."""
    samples = []
    for number, item, answers in answered.items(suite):
        filters = dict.fromkeys(
            name.partition(",")[2] for answer in answers for name in answer.result.scores
        )
        samples += [_sample(answered, number, item, answers, each) for each in filters or ("none",)]
    return samples


def _sample(
    answered: Answered, number: int, item: Item, answers: Sequence[StoredAnswer], filter_name: str
) -> Sample:
    document = {
        "id": item.id,
        "turns": [*item.turns],
        "references": [*item.references],
        "category": item.category,
    }
    turns = range(max(len(answer.texts) for answer in answers))
    responses = [
        [answer.texts[turn] for answer in answers if turn < len(answer.texts)] for turn in turns
    ]
    target = (
        item.references[0]
        if len(item.references) == 1
        else json.dumps(item.references, ensure_ascii=False)
    )
    values = _values(answers, filter_name)
    return {
        "doc_id": number,
        "doc": document,
        "target": target,
        "arguments": {
            f"gen_args_{n}": {"arg_0": item.turns[n], "arg_1": _generation(answered)} for n in turns
        },
        "resps": responses,
        "filtered_resps": [each[0] for each in responses],
        "filter": filter_name,
        "metrics": list(values),
        "doc_hash": _hash(json.dumps(document, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(item.turns[0]),
        "target_hash": _hash(target),
        "mars": [
            {
                "repeat": answer.task.repeat,
                "run_ids": [run.id for run in answer.runs],
                "ended": answer.result.ended,
            }
            | _finite(answer, TELEMETRY)
            for answer in answers
        ],
    } | values


def _values(answers: Sequence[StoredAnswer], filter_name: str) -> dict[str, float]:
    """Metric → mean over the seeds that have it."""
    by_metric: dict[str, list[float]] = {}
    for answer in answers:
        for name, value in answer.result.scores.items():
            metric, _, filtered = name.partition(",")
            if filtered == filter_name:
                by_metric.setdefault(metric, []).append(value)
    return {metric: fmean(values) for metric, values in by_metric.items()}


def _finite(answer: StoredAnswer, names: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(answer.result, name) for name in names}
    numbers = {name: value if math.isfinite(value) else None for name, value in values.items()}
    return numbers | {"tv_kind": answer.runs[0].config.shift_kind.value}


def _results(answered: Answered, samples_by_task: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    """The one object of ``results_TIME.json``; ``config["mars"]`` has the numbers without a field
    in lm-eval."""
    plan = answered.plan
    sizes = {suite.name: len(suite.items) for suite in plan.suites}
    tasks = {
        name: _of_task(answered, name, samples, sizes[name])
        for name, samples in samples_by_task.items()
        if samples
    }
    return {field: {name: each[field] for name, each in tasks.items()} for field in OF_TASKS} | {
        "config": _config(answered),
        "date": answered.saved_at.timestamp(),
        "transformers_version": answered.environment.get("transformers", ""),
        "model_source": "mars",
        "model_name": answered.name,
        "model_name_sanitized": answered.name,
        "system_instruction": plan.system or None,
        "system_instruction_sha": _hash(plan.system) if plan.system else None,
        **dict.fromkeys(("fewshot_as_multiturn", "chat_template", "chat_template_sha")),
    }


def _of_task(answered: Answered, name: str, samples: Sequence[Sample], size: int) -> dict[str, Any]:
    """One task under each of ``OF_TASKS``."""
    documents = len({sample["doc_id"] for sample in samples})
    metrics = sorted({metric for sample in samples for metric in sample["metrics"]})
    hashes = itemgetter("doc_hash", "prompt_hash", "target_hash")
    return {
        "results": _task(name, samples, documents),
        "group_subtasks": [],
        "configs": {
            "task": name,
            "output_type": "generate_until",
            "repeats": answered.plan.repeats,
            "num_fewshot": 0,
            "generation_kwargs": _generation(answered),
        },
        "versions": VERSION,
        "n-shot": 0,
        "higher_is_better": dict.fromkeys(metrics, True),
        "n-samples": {"original": size, "effective": documents},
        "task_hashes": _hash("".join(map("".join, map(hashes, samples)))),
    }


def _config(answered: Answered) -> dict[str, Any]:
    plan, lane, environment = (
        answered.plan,
        answered.plan.lanes[answered.lane],
        answered.environment,
    )
    revision = answered.answers[0].runs[0].config.target.revision if answered.answers else None
    mars = {"lane": lane.name, "drafts": lane.drafts, "seeds": plan.repeats}
    mars |= {"failed": answered.failed, "gone": answered.gone, "environment": environment}
    return {
        "model": "mars",
        "model_args": model_args(plan.models, lane, plan.processors.protect),
        "model_dtype": environment.get("dtype", ""),
        "model_revision": revision or "",
        "batch_size": "auto" if plan.auto else str(plan.batch),
        "batch_sizes": [],
        "device": environment.get("device"),
        "limit": None,
        "gen_kwargs": _generation(answered),
        "random_seed": plan.seed,
        "mars": mars | pooled([_finite(answer, POOLED) for answer in answered.answers]),
    }


def _task(name: str, samples: Sequence[Sample], documents: int) -> dict[str, Any]:
    task: dict[str, Any] = {"name": name, "alias": name, "sample_len": documents}
    keys = dict.fromkeys(
        (metric, sample["filter"]) for sample in samples for metric in sample["metrics"]
    )
    for metric, filter_name in keys:
        values = [
            sample[metric]
            for sample in samples
            if sample["filter"] == filter_name and metric in sample["metrics"]
        ]
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else "N/A"
        task |= {f"{metric},{filter_name}": fmean(values), f"{metric}_stderr,{filter_name}": error}
    return task


def _generation(answered: Answered) -> dict[str, Any]:
    """lm-eval's ``generation_kwargs``."""
    plan, temperature = answered.plan, answered.temperature
    sampling = {
        "do_sample": temperature > 0,
        "temperature": temperature,
        "top_k": plan.top_k,
        "top_p": plan.top_p,
    }
    sampling |= replace(plan.processors, protect=()).chosen
    return {"until": list(plan.stop), "max_gen_toks": plan.max_new_tokens, **sampling}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_answers(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """For each suite, lane and temperature ``SUITE/model_answer/MODEL.jsonl``, one line per
    question, as Spec-Bench (evaluation/eval.py) and EAGLE (evaluation/gen_ea_answer_*.py) write
    them, and their ``speed.py`` reads.

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
    """A row for every question, in the order of the suite; ``choices``: one per seed."""
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


def _write(path: Path, rows: Iterable[Mapping[str, Any]], indent: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False, indent=indent) + "\n" for row in rows)
    return path
