"""A Trace as a row of runs and one of run_traces, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import RowMapping, func

from mars_core.rules import as_value
from mars_core.types import SERVER, PromptConfig, Step, Trace, value_text
from storage.errors import StorageError
from storage.schema import ComparisonRow, RunRow, RunTrace
from storage.schema.columns import SafeText
from storage.schema.trace import CONFIG, FIELDS, PROMPT, RUN_FIELDS, SUMMARY
from storage.scope import new_id
from storage.traces.flat import Flat, flatten, steps_of
from storage.traces.packing import VERSION, checked, pack, unpack

TRACE = (RunTrace.version, RunTrace.data)
QUESTION = func.coalesce(RunRow.question, ComparisonRow.prompt, type_=SafeText)
OF_PROMPT = (
    QUESTION.label("prompt"),
    *(ComparisonRow.__table__.c[name] for name in PROMPT if name != "prompt"),
)
OF_LABEL = ("rule", "rule_parameters", "target", "environment")  # columns of ``run_label``
RowValues = dict[str, Any]  # one row: column → value


class NewRun(NamedTuple):
    """The rows of a run that is to be written: of ``runs``, without its comparison, and of
    ``run_traces``."""

    run: RowValues
    trace: RowValues


def prompt_row(prompt: PromptConfig) -> RowValues:
    """Return the columns of a prompt, without history, thinking and structure, which are stored per run."""
    return {
        "prompt": prompt.text,
        "system": prompt.system,
        "chat": prompt.chat,
        "stop": prompt.stop,
    }


def read_prompt(row: Mapping[str, Any] | RowMapping) -> PromptConfig:
    return PromptConfig(row["prompt"], row["system"], row["chat"], tuple(row["stop"]))


def run_row(trace: Trace) -> RowValues:
    """Return the columns of a trace, without its prompt (the comparison's) and its steps."""
    turn = {"turn": len(trace.config.prompt.history)}
    return turn | {each.column: each.of(trace) for each in FIELDS}


def new_run(trace: Trace, lane: int, order: int, run_id: str | None = None) -> NewRun:
    """Add a run. ``run_id``: default a new one. Raises StorageError unless steps and their tokens
    are numbered 0, 1, 2…, which is not stored."""
    for number, step in enumerate(trace.steps):
        if step.index != number or any(token.step != number for token in step.tokens):
            raise StorageError(
                f"The run was not saved: step {number} of the trace is numbered {step.index} or "
                "its tokens are."
            )
    run_id = run_id or new_id()
    keys = {"id": run_id, "lane": lane, "execution_order": order, "created_at": datetime.now(UTC)}
    return NewRun(keys | run_row(trace), trace_row(run_id, trace.steps))


def trace_row(run_id: str, steps: Sequence[Step]) -> RowValues:
    return {"run_id": run_id, "version": VERSION, "data": pack(flatten(steps))}


def read_flat(row: RowMapping) -> Flat:
    """Read the flat columns of a row of run_traces. Raises LookupError if it is damaged."""
    return unpack([checked(row["version"], row["data"])])


def read_trace(row: RowMapping) -> Trace:
    """Read the trace of a row of runs with OF_PROMPT and the columns of run_traces."""
    values = {each.column: each.read(row) for each in RUN_FIELDS}
    return Trace(
        config=CONFIG.read(row), steps=steps_of(read_flat(row)), summary=SUMMARY.read(row), **values
    )


def run_label(run: Mapping[str, Any]) -> str:
    """Return the rule of a row of runs in a table; of a server's run, which model of which server
    it is."""
    if run["rule"] == SERVER:
        url = dict(run["environment"]).get(SERVER, "")
        return rule_label(SERVER, {"model": run["target"], "url": url})
    return rule_label(run["rule"], run["rule_parameters"])


def rule_label(rule: str, parameters: Mapping[str, Any]) -> str:
    """Return a rule in a table: ``none``, ``strict``, ``mars(theta=0.9)``."""
    values = ", ".join(
        f"{name}={value_text(as_value(value))}" for name, value in parameters.items()
    )
    return f"{rule}({values})" if values else rule
