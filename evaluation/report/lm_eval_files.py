"""Results and samples as lm-eval 0.4.13 writes them (its result_schema.py). Needs no lm-eval.

A score of a document is the mean over its seeds; the standard error is that of the mean over documents, as lm-eval computes it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from evaluation.harness.telemetry import pooled
from evaluation.report.answered import Answer, Answered
from evaluation.suites.item import Item

Sample = dict[str, Any]
VERSION = 1.0  # of our tasks


def samples(answered: Answered, suite: int) -> list[Sample]:
    """One for every document and filter; a document without a score has filter ``none`` and no metric."""
    found = []
    for number, item, answers in answered.items(suite):
        scored = [answer.result.scores for answer in answers]
        filters = list(dict.fromkeys(name.partition(",")[2] for scores in scored for name in scores)) or ["none"]
        found += [_sample(answered, number, item, answers, each) for each in filters]
    return found


def _sample(answered: Answered, number: int, item: Item, answers: Sequence[Answer], filter_name: str) -> Sample:
    document = {
        "id": item.id,
        "turns": list(item.turns),
        "references": list(item.references),
        "category": item.category,
    }
    turns = range(max(len(answer.texts) for answer in answers))
    responses = [[answer.texts[turn] for answer in answers if turn < len(answer.texts)] for turn in turns]
    target = item.references[0] if len(item.references) == 1 else json.dumps(item.references, ensure_ascii=False)
    values = _values(answers, filter_name)
    return {
        "doc_id": number,
        "doc": document,
        "target": target,
        "arguments": {
            f"gen_args_{turn}": {"arg_0": item.turns[turn], "arg_1": _generation(answered)} for turn in turns
        },
        "resps": responses,
        "filtered_resps": [each[0] for each in responses],
        "filter": filter_name,
        "metrics": list(values),
        "doc_hash": _hash(json.dumps(document, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(item.turns[0]),
        "target_hash": _hash(target),
        "mars": [_telemetry(answer) for answer in answers],
    } | values


def _values(answers: Sequence[Answer], filter_name: str) -> dict[str, float]:
    """Metric → mean over the seeds that have it."""
    names = dict.fromkeys(name for answer in answers for name in answer.result.scores)
    return {
        name.partition(",")[0]: fmean(answer.result.scores[name] for answer in answers if name in answer.result.scores)
        for name in names
        if name.partition(",")[2] == filter_name
    }


def _telemetry(answer: Answer) -> dict[str, Any]:
    """Of one seed; ``run_ids`` are those of the database, one a turn."""
    result = answer.result
    numbers = {
        "new_tokens": result.new_tokens,
        "steps": result.steps,
        "wall_s": result.wall_s,
        "relaxed": result.relaxed,
    }
    numbers |= {"tv_sum": result.tv_sum, "log_likelihood": result.log_likelihood}
    kept = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return {"repeat": answer.task.repeat, "run_ids": [run.id for run in answer.runs], "ended": result.ended} | kept


def results(answered: Answered, samples_by_task: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    """The one object of ``results_TIME.json``; ``config["mars"]`` holds the numbers that lm-eval has no place for."""
    plan = answered.plan
    tasks = {name: found for name, found in samples_by_task.items() if found}
    counts = {name: len({sample["doc_id"] for sample in found}) for name, found in tasks.items()}
    originals = {suite.name: len(suite.items) for suite in plan.suites}
    metrics = {name: {metric for sample in found for metric in sample["metrics"]} for name, found in tasks.items()}
    return {
        "results": {name: _task(name, found, counts[name]) for name, found in tasks.items()},
        "group_subtasks": {name: [] for name in tasks},
        "configs": {name: _task_config(answered, name) for name in tasks},
        "versions": dict.fromkeys(tasks, VERSION),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {name: dict.fromkeys(sorted(found), True) for name, found in metrics.items()},
        "n-samples": {name: {"original": originals[name], "effective": counts[name]} for name in tasks},
        "config": _config(answered),
        "date": answered.saved_at.timestamp(),
        "transformers_version": answered.environment.get("transformers", ""),
        "task_hashes": {
            name: _hash("".join(each["doc_hash"] + each["prompt_hash"] + each["target_hash"] for each in found))
            for name, found in tasks.items()
        },
        "model_source": "mars",
        "model_name": answered.name,
        "model_name_sanitized": answered.name,
        "system_instruction": plan.system or None,
        "system_instruction_sha": _hash(plan.system) if plan.system else None,
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "chat_template_sha": None,
    }


def _task_config(answered: Answered, name: str) -> dict[str, Any]:
    return {
        "task": name,
        "output_type": "generate_until",
        "repeats": answered.plan.repeats,
        "num_fewshot": 0,
        "generation_kwargs": _generation(answered),
    }


def _config(answered: Answered) -> dict[str, Any]:
    plan, lane = answered.plan, answered.plan.lanes[answered.lane]
    revision = answered.answers[0].runs[0].config.target.revision if answered.answers else None
    own = {"lane": lane.name, "drafts": lane.drafts, "seeds": plan.repeats}
    own |= {"failed": answered.failed, "gone": answered.gone, "environment": answered.environment}
    return {
        "model": "mars",
        "model_args": _model_args(answered),
        "model_dtype": answered.environment.get("dtype", ""),
        "model_revision": revision or "",
        "batch_size": "1",
        "batch_sizes": [],
        "device": answered.environment.get("device"),
        "limit": None,
        "gen_kwargs": _generation(answered),
        "random_seed": plan.seed,
        "mars": own | _pooled(answered),
    }


def _task(name: str, found: Sequence[Sample], documents: int) -> dict[str, Any]:
    task: dict[str, Any] = {"name": name, "alias": name, "sample_len": documents}
    keys = dict.fromkeys((metric, sample["filter"]) for sample in found for metric in sample["metrics"])
    for metric, filter_name in keys:
        values = [sample[metric] for sample in found if sample["filter"] == filter_name and metric in sample["metrics"]]
        task[f"{metric},{filter_name}"] = fmean(values)
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else "N/A"
        task[f"{metric}_stderr,{filter_name}"] = error
    return task


def _pooled(answered: Answered) -> dict[str, Any]:
    names = ("new_tokens", "steps", "wall_s", "drafted", "accepted", "relaxed", "tv_sum", "log_likelihood")
    rows = [{name: getattr(answer.result, name) for name in names} for answer in answered.answers]
    return pooled([{name: value if math.isfinite(value) else 0 for name, value in row.items()} for row in rows])


def _model_args(answered: Answered) -> dict[str, Any]:
    """As ``--model_args`` of the model mars says it."""
    plan, lane = answered.plan, answered.plan.lanes[answered.lane]
    drafter = lane.drafter
    given: dict[str, Any] = {"target": plan.models.target.name, "rule": lane.rule.name, **lane.rule.parameters}
    if drafter.kind == "none":
        return given
    model = {"model": plan.models.draft, "eagle3": plan.models.head}.get(drafter.kind)
    name = model.name if model else ""
    given["drafter"] = f"eagle3:{name}" if drafter.kind == "eagle3" else name or drafter.kind
    if drafter.tree:
        return given | {f"tree_{part}": getattr(drafter.tree, part) for part in ("tokens", "depth", "top_k")}
    chain = {"chain": True} if drafter.kind == "eagle3" else {}
    return given | chain | {"k": drafter.k, "draft_mode": drafter.mode.value}


def _generation(answered: Answered) -> dict[str, Any]:
    """lm-eval's ``generation_kwargs``."""
    plan = answered.plan
    return {
        "until": list(plan.stop),
        "max_gen_toks": plan.max_new_tokens,
        "do_sample": answered.temperature > 0,
        "temperature": answered.temperature,
        "top_k": plan.top_k,
        "top_p": plan.top_p,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
