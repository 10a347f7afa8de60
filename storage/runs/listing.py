"""Comparisons as rows of a table, with the first run of every lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from storage.runs.records import rule_label
from storage.schema import ComparisonRow, RunRow
from storage.schema.columns import SafeText
from storage.schema.text import readable

PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
_OF_LANES = ("status", "new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share")
_SETTINGS = ("drafter", "drafter_model", "k", "tree_tokens", "temperature", "seed")
_READ = ("id", "created_at", "name", "tags", "comment", "source")
_OF_RUNS = ("comparison_id", "lane", "turn", "id", "target", "rule", "rule_parameters")


def rows_of(connection: Connection, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return comparisons in the order of the ids, of which a statement may have as many, as
    ``Lists.find`` says."""
    preview = func.substr(ComparisonRow.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
    query = select(*(ComparisonRow.__table__.c[name] for name in _READ), preview)
    names = (*_OF_RUNS, *_OF_LANES, *_SETTINGS)
    runs = select(*(RunRow.__table__.c[name] for name in names))
    runs = runs.order_by(RunRow.comparison_id, RunRow.lane, RunRow.execution_order)
    query, runs = query.where(ComparisonRow.id.in_(ids)), runs.where(RunRow.comparison_id.in_(ids))
    rows = {row["id"]: row for row in connection.execute(query).mappings()}
    first: dict[str, dict[int, RowMapping]] = {id_: {} for id_ in ids}  # run of each lane
    turns: dict[str, set[int]] = {id_: set() for id_ in ids}
    for run in connection.execute(runs).mappings():
        first[run["comparison_id"]].setdefault(run["lane"], run)
        turns[run["comparison_id"]].add(run["turn"])
    return [_row(rows[id_], [*first[id_].values()]) | {"turns": len(turns[id_])} for id_ in ids]


def _row(row: RowMapping, lanes: Sequence[RowMapping]) -> dict[str, Any]:
    """Return a comparison with its lanes."""
    values = {name: tuple(run[name] for run in lanes) for name in (*_OF_LANES, *_SETTINGS)}
    texts = {name: readable(row[name]) for name in ("prompt", "name", "comment")}
    return {
        **row,
        **values,
        **texts,
        "tags": tuple(row["tags"]),
        "target": readable(lanes[0]["target"]) if lanes else "",
        "rules": tuple(rule_label(run["rule"], run["rule_parameters"]) for run in lanes),
        "run_ids": tuple(run["id"] for run in lanes),
    }
