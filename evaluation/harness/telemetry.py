"""Telemetry of each answer, as JSON lines beside lm-eval's samples, written as soon as the answer
is complete."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluation.statistics import over
from mars_core.types import Trace

LoggedRow = Mapping[str, Any]
POOLED = (
    "new_tokens",
    "steps",
    "wall_s",
    "drafted",
    "accepted",
    "relaxed",
    "tv_sum",
    "log_likelihood",
)


def row_of(trace: Trace, **known: Any) -> LoggedRow:
    """Return the numbers of one answer; ``known`` identifies it: task, doc_id, repeat, prompt_hash
    (those of lm-eval's samples).

    Undefined rates and infinite KL are null, because JSON has no NaN or infinity.
    """
    config = trace.config
    row = known | {
        "rule": config.rule.name,
        "parameters": dict(config.rule.parameters),
        "drafter": config.drafter.kind,
        "seed": config.seed,
        "temperature": config.sampling.temperature,
        "status": trace.status.value,
        "stop_reason": trace.stop_reason.value,
        "tv_kind": config.shift_kind.value,
    }
    return {name: _plain(value) for name, value in (row | asdict(trace.summary)).items()}


def pooled(rows: Sequence[LoggedRow]) -> dict[str, Any]:
    """Pooled values of all answers: rates are ratios of sums, ``tv_sum`` is a mean over answers.
    Null where an answer's is unknown."""
    total = {
        name: sum(math.nan if row[name] is None else row[name] for row in rows) for name in POOLED
    }
    rates = {
        "tokens_per_s": over(total["new_tokens"], total["wall_s"]),
        "tau": over(total["new_tokens"], total["steps"]),
        "acceptance_rate": over(total["accepted"] + total["relaxed"], total["drafted"]),
        "relaxed_share": over(total["relaxed"], total["new_tokens"]),
        "tv_sum": over(total.pop("tv_sum"), len(rows)),
    }
    kinds = sorted({row["tv_kind"] for row in rows})
    return {"answers": len(rows), "tv_kind": ", ".join(kinds)} | {
        name: _plain(value) for name, value in (total | rates).items()
    }


class Telemetry(list[LoggedRow]):
    """The rows of all answers, and their file, if a folder is set."""

    def __init__(self, folder: str | None) -> None:
        super().__init__()
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        self.path = None if folder is None else Path(folder) / f"telemetry_{time}.jsonl"

    def add(self, row: LoggedRow) -> None:
        self.append(row)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
