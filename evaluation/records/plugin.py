"""The lines of mars-vllm: every step of a request, with margins and relaxed tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evaluation.records.fields import config_of, ids_of, number, whole
from evaluation.served.trace import ServedStep, ServedToken, served_trace
from evaluation.study.servers import SERVER
from mars_core.types import UNKNOWN, RuleConfig, StopReason, Trace

FORMAT = "mars-vllm-1"
_DRAFTERS = {"draft_model": "model", "eagle3": "eagle3", "ngram": "ngram"}  # vLLM's names → ours


def read_line(row: Mapping[str, Any]) -> tuple[Trace, datetime | None, str]:
    """A line of mars-vllm: every step, with margins and relaxed tokens. The first token comes from the prefill, which is not a step."""
    if row["format"] != FORMAT:
        raise ValueError(f"format is {str(row['format'])[:40]!r}; it must be {FORMAT!r}")
    steps = [_step(each) for each in row["steps"]]
    if len(steps) > 1 and not steps[0].drafted:
        lead, second = steps[0].emitted, steps[1]
        steps[:2] = [replace(second, emitted=lead + second.emitted, lead=lead)]
    kind, _, drafter = str(row["drafter"] or SERVER).partition(":")
    values = {str(name): number(value) for name, value in row["parameters"].items()}
    config = config_of(
        row["model"], f"vLLM {row['vllm']}", k=max((step.drafted for step in steps), default=0), plugin=str(row["plugin"]),
        rule=RuleConfig(str(row["rule"]), values), kind=_DRAFTERS.get(kind, SERVER), drafter=drafter,
        temperature=number(row["temperature"]), seed=UNKNOWN if row["seed"] is None else whole(row["seed"]),
    )  # fmt: skip
    tokens = [ServedToken(id_) for each in row["steps"] for id_ in each["emitted"]]
    trace = served_trace(
        config, text="", tokens=tokens, steps=steps, stop_reason=StopReason.UNKNOWN, prompt_ids=ids_of(row["prompt_ids"] or ())
    )  # fmt: skip
    return trace, datetime.fromisoformat(row["finished"]).astimezone(UTC), "a line of mars-vllm"


def _step(row: Mapping[str, Any]) -> ServedStep:
    drafted, emitted, id1, id2 = (ids_of(row[name]) for name in ("drafted", "emitted", "id1", "id2"))
    z1, z2 = ([number(value) for value in row[name]] for name in ("z1", "z2"))
    relaxed, kept = [value is True for value in row["relaxed"]], whole(row["kept"])
    lengths = {len(drafted), len(relaxed), len(z1), len(z2), len(id1), len(id2)}
    if len(lengths) > 1 or kept > min(len(drafted), len(emitted)):
        raise ValueError("drafted, kept, relaxed, z1, z2, id1, id2 and emitted of a step do not belong together")
    return ServedStep(len(drafted), kept, len(emitted), 0, drafted, relaxed, z1, z2, id1, id2)
