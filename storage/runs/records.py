"""Converts a Trace to a row of runs and one of run_traces, and back, without loss.

Columns have the names of the dataclass fields, except those in run_row and read_config.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping

from mars_core.types import (
    DrafterConfig,
    Exchange,
    Given,
    ModelRef,
    PassShape,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Step,
    Summary,
    Trace,
    TreeShape,
)
from storage.errors import StorageError
from storage.lookup import new_id
from storage.schema import Run, RunTrace
from storage.traces.flat import Flat, flatten, steps_of
from storage.traces.packing import VERSION, checked, pack, unpack

Values = dict[str, Any]  # one row: column → value
NewRun = dict[type[Run | RunTrace], Values]  # table → its row


def prompt_row(prompt: PromptConfig) -> Values:
    """The columns of a prompt, without history and thinking, which are stored per run."""
    return {"prompt": prompt.text, "system": prompt.system, "chat": prompt.chat, "stop": list(prompt.stop)}


def read_prompt(row: RowMapping) -> PromptConfig:
    return PromptConfig(row["prompt"], row["system"], row["chat"], tuple(row["stop"]))


def run_row(trace: Trace) -> Values:
    """The columns of a trace, without its prompt (the comparison's) and its steps."""
    config, drafter = trace.config, trace.config.drafter
    return {
        "status": trace.status,
        "stop_reason": trace.stop_reason,
        "error": trace.error,
        "rule": config.rule.name,
        "rule_parameters": dict(config.rule.parameters),
        "drafter": drafter.kind,
        "drafter_model": drafter.model.name if drafter.model else None,
        "drafter_revision": drafter.model.revision if drafter.model else None,
        "k": drafter.k,
        "draft_mode": drafter.mode,
        "target": config.target.name,
        "target_revision": config.target.revision,
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
        "thinking": config.prompt.thinking,
        "pass_rows": config.passes.rows if config.passes else None,
        "pass_width": config.passes.width if config.passes else None,
        "environment": dict(config.environment),
        "prompt_ids": list(trace.prompt_ids),
        "text": trace.text,
        "prefix": list(config.prefix),
        "given": [list(token) for token in trace.given],
        "history": [list(turn) for turn in config.prompt.history],
        **{f"tree_{each.name}": getattr(drafter.tree, each.name, None) for each in fields(TreeShape)},
        **{each.name: getattr(config.sampling, each.name) for each in fields(Sampling)},
        **{each.name: getattr(trace.summary, each.name) for each in fields(Summary)},
    }


def check_numbering(trace: Trace) -> None:
    """Raise StorageError unless steps and their tokens are numbered 0, 1, 2…, which is not stored."""
    for number, step in enumerate(trace.steps):
        if step.index != number or any(token.step != number for token in step.tokens):
            raise StorageError(
                f"The run was not saved: step {number} of the trace is numbered {step.index} or its tokens are."
            )


def new_run(trace: Trace, lane: int, order: int) -> NewRun:
    """The rows of a run that is to be written, by table."""
    run_id = new_id()
    keys = {"id": run_id, "lane": lane, "execution_order": order, "created_at": datetime.now(UTC)}
    return {Run: keys | run_row(trace), RunTrace: trace_row(run_id, trace.steps, trace.config.seed)}


def trace_row(run_id: str, steps: Sequence[Step], seed: int) -> Values:
    return {"run_id": run_id, "version": VERSION, "data": pack(flatten(steps, seed))}


def read_flat(row: RowMapping) -> Flat:
    """The flat columns of a row of run_traces with the ``seed`` of its run. Raises LookupError if it is damaged."""
    return unpack([checked(row["version"], row["data"])], [row["seed"]])


def read_trace(row: RowMapping, prompt: PromptConfig) -> Trace:
    """The trace of a row of runs with that of run_traces."""
    return Trace(
        config=read_config(row, prompt),
        status=row["status"],
        stop_reason=row["stop_reason"],
        prompt_ids=tuple(row["prompt_ids"]),
        text=row["text"],
        steps=steps_of(read_flat(row)),
        summary=read_summary(row),
        error=row["error"],
        given=tuple(Given(*token) for token in row["given"]),
    )


def rule_label(rule: str, parameters: Mapping[str, Any]) -> str:
    """A run's rule in a table: ``none``, ``strict``, ``mars(theta=0.9)``."""
    values = ", ".join(f"{name}={float(value):g}" for name, value in parameters.items())
    return f"{rule}({values})" if values else rule


def _fields(kind: type, row: RowMapping, prefix: str = "") -> Values:
    return {each.name: row[prefix + each.name] for each in fields(kind)}


def read_config(row: RowMapping, prompt: PromptConfig) -> RunConfig:
    model = row["drafter_model"]
    return RunConfig(
        prompt=replace(prompt, history=tuple(Exchange(*turn) for turn in row["history"]), thinking=row["thinking"]),
        target=ModelRef(row["target"], row["target_revision"]),
        drafter=DrafterConfig(
            row["drafter"],
            None if model is None else ModelRef(model, row["drafter_revision"]),
            row["k"],
            row["draft_mode"],
            None if row["tree_tokens"] is None else TreeShape(**_fields(TreeShape, row, "tree_")),
        ),
        rule=RuleConfig(row["rule"], {name: float(value) for name, value in row["rule_parameters"].items()}),
        sampling=Sampling(**_fields(Sampling, row)),
        max_new_tokens=row["max_new_tokens"],
        seed=row["seed"],
        environment=row["environment"],
        prefix=tuple(row["prefix"]),
        passes=None if row["pass_rows"] is None else PassShape(row["pass_rows"], row["pass_width"]),
    )


def read_summary(row: RowMapping) -> Summary:
    values = _fields(Summary, row)
    values["acceptance_by_position"] = tuple(float(rate) for rate in values["acceptance_by_position"])
    return Summary(**values)
