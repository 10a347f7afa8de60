"""What the tests of the exports share: a saved comparison, the files, what they should hold."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mars_core.types import DraftNode, Token, Trace
from storage import RunStore, write_nodes_csv, write_runs_csv, write_tokens_csv, write_votes_csv

NUMBERS = ("z1", "z2", "r", "gap", "p", "q", "entropy", "forgiveness", "u", "coin", "edge", "tv", "kl", "logprob")


def save(store: RunStore, *traces: Trace) -> str:
    comparison_id = store.new_comparison(traces[0].config.prompt)
    for lane, trace in enumerate(traces):
        store.save_run(comparison_id, trace, lane=lane, order=lane)
    return comparison_id


def runs_csv(store: RunStore, ids: list[str] | None = None) -> str:
    stream = io.StringIO(newline="")
    write_runs_csv(store, stream, ids)
    return stream.getvalue()


def tokens_csv(store: RunStore, ids: list[str] | None = None) -> str:
    stream = io.StringIO(newline="")
    write_tokens_csv(store, stream, ids)
    return stream.getvalue()


def nodes_csv(store: RunStore, ids: list[str] | None = None) -> str:
    stream = io.StringIO(newline="")
    write_nodes_csv(store, stream, ids)
    return stream.getvalue()


def votes_csv(store: RunStore, ids: list[str] | None = None) -> str:
    stream = io.StringIO(newline="")
    write_votes_csv(store, stream, ids)
    return stream.getvalue()


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def all_tokens(trace: Trace) -> list[Token]:
    return [token for step in trace.steps for token in step.tokens]


def all_nodes(trace: Trace) -> list[tuple[int, int, DraftNode]]:
    """Every drafted node with its step and its number."""
    return [(step.index, number, node) for step in trace.steps for number, node in enumerate(step.nodes, start=1)]


def number(text: str) -> float:
    return float(text) if text else math.nan


def read_parquet(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
