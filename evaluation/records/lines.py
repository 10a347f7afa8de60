"""The lines of mars-vllm."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evaluation.records.values import Read, RecordRow, config_of, number
from evaluation.served.counts import ids_of, integer
from evaluation.served.tokens import token_of
from evaluation.served.trace import ServedStep, TwoBest, served_trace
from mars_core.drafting import DRAFTERS
from mars_core.types import SERVER, UNKNOWN, RuleConfig, StopReason

FORMAT = "mars-vllm-1"
_DRAFTERS = {each.vllm: name for name, each in DRAFTERS.items() if each.vllm}


def read_line(row: RecordRow) -> Read:
    """Read a line of mars-vllm: every step, with margins and relaxed tokens. The first token comes
    from the prefill, which is not a step."""
    if row["format"] != FORMAT:
        raise ValueError(f"format is {str(row['format'])[:40]!r}; it must be {FORMAT!r}")
    steps = [_step(each) for each in row["steps"]]
    if len(steps) > 1 and not steps[0].drafted:
        lead, second = steps[0].emitted, steps[1]
        steps[:2] = [replace(second, emitted=lead + second.emitted, lead=lead)]
    kind, _, drafter = str(row["drafter"] or SERVER).partition(":")
    values = {str(name): number(value) for name, value in row["parameters"].items()}
    config = config_of(
        row["model"],
        f"vLLM {row['vllm']}",
        k=max((step.drafted for step in steps), default=0),
        plugin=str(row["plugin"]),
        rule=RuleConfig(str(row["rule"]), values),
        kind=_DRAFTERS.get(kind, SERVER),
        drafter=drafter,
        temperature=number(row["temperature"]),
        seed=UNKNOWN if row["seed"] is None else integer(row["seed"]),
    )
    tokens = [token_of(id_) for each in row["steps"] for id_ in each["emitted"]]
    trace = served_trace(
        config,
        text="",
        tokens=tokens,
        steps=steps,
        stop_reason=StopReason.UNKNOWN,
        prompt_ids=ids_of(row["prompt_ids"] or ()),
    )
    return trace, datetime.fromisoformat(row["finished"]).astimezone(UTC), "a line of mars-vllm"


def _step(row: RecordRow) -> ServedStep:
    drafted, emitted, *ids = (ids_of(row[name]) for name in ("drafted", "emitted", "id1", "id2"))
    z = [[number(value) for value in row[name]] for name in ("z1", "z2")]
    relaxed, kept = [value is True for value in row["relaxed"]], integer(row["kept"])
    columns: list[list[Any]] = [drafted, relaxed, *z, *ids]
    if len(set(map(len, columns))) > 1 or kept > min(len(drafted), len(emitted)):
        raise ValueError(
            "drafted, kept, relaxed, z1, z2, id1, id2 and emitted of a step do not belong together"
        )
    best = [TwoBest(*each) for each in zip(*z, *ids, strict=True)]
    return ServedStep(len(drafted), kept, len(emitted), 0, drafted, relaxed, best)
