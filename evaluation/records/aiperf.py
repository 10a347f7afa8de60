"""AIPerf's records of requests (``profile_export.jsonl``): times as its client saw them, and numbers
of tokens; no texts and nothing of drafts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from display.format import shorten
from evaluation.records.values import NAN, Read, RecordRow, config_of, number
from evaluation.served.counts import integer
from evaluation.served.trace import served_trace
from mars_core.types import UNKNOWN, StopReason

_SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def read_aiperf(row: RecordRow) -> Read:
    """Read a record; that of a failed request is a failed run."""
    about, metrics, error = row["metadata"], row.get("metrics") or {}, row.get("error") or {}
    failed = f"{error.get('type')}: {error.get('message')}" if error else ""
    reason = StopReason.ERROR if failed else StopReason.UNKNOWN
    trace = served_trace(
        config_of("", "AIPerf's"),
        text="",
        tokens=(),
        stop_reason=StopReason.CANCELLED if about.get("was_cancelled") is True else reason,
        new_tokens=_tokens(metrics, "output_sequence_length"),
        prompt_tokens=_tokens(metrics, "input_sequence_length"),
        ttft_s=_seconds(metrics, "time_to_first_token"),
        wall_s=_seconds(metrics, "request_latency"),
        error=shorten(failed, 200),
    )
    began = datetime.fromtimestamp(integer(about["request_start_ns"] // 10**6) / 1e3, UTC)
    return trace, began, "a record of AIPerf, with times of its client"


def _tokens(metrics: Mapping[str, Any], name: str) -> int:
    return integer(int(number(metrics[name]["value"]))) if name in metrics else UNKNOWN


def _seconds(metrics: Mapping[str, Any], name: str) -> float:
    """Return nan where it was not measured. Raises ValueError for an unknown unit."""
    if name not in metrics:
        return NAN
    value, unit = metrics[name]["value"], metrics[name]["unit"]
    if unit not in _SECONDS:
        raise ValueError(f"the unit of {name} is {str(unit)[:20]!r}; it must be s, ms, us or ns")
    return number(value) * _SECONDS[unit]
