"""Comparisons as a table: one row each, with what their runs came to. Reads no steps and no tokens; opens no transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from sqlalchemy import Connection, RowMapping, Select, func, select

from storage.columns import SafeText
from storage.errors import StorageError
from storage.records import rule_label
from storage.schema import Comparison, Run
from storage.text import readable

Query = Select[*tuple[Any, ...]]
PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
RUNS_OF_A_READ = 500  # comparisons
_NUMBERS = ("new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share")
COLUMNS = ("id", "created_at", "prompt", "target", "rules", "status", *_NUMBERS)
NOTES = ("name", "tags", "comment", "source", "run_ids")


def check_page(limit: int, offset: int) -> None:
    if limit < 0 or offset < 0:
        raise StorageError(f"limit and offset must be 0 or more, not {limit} and {offset}.")


def rows() -> Query:
    """The comparisons that are not deleted, with the columns that ``frame`` takes; in no order."""
    preview = func.substr(Comparison.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
    notes = (Comparison.name, Comparison.tags, Comparison.comment, Comparison.source)
    return select(Comparison.id, Comparison.created_at, preview, *notes).where(Comparison.deleted_at.is_(None))


def latest_first(statement: Query) -> Query:
    return statement.order_by(Comparison.created_at.desc(), Comparison.id.desc())


def frame(connection: Connection, page: Query) -> pd.DataFrame:
    """COLUMNS and NOTES of a page of ``rows``, in its order."""
    comparisons = connection.execute(page).mappings().all()
    lanes = _lanes(connection, [row["id"] for row in comparisons])
    data: dict[str, list[Any]] = {name: [row[name] for row in comparisons] for name in ("id", "created_at")}
    data["prompt"] = [readable(row["prompt"]) for row in comparisons]  # pandas keeps strings as UTF-8
    data["target"] = [readable(lane[0]["target"]) if lane else "" for lane in lanes]
    data["rules"] = [tuple(rule_label(run) for run in lane) for lane in lanes]
    for name in ("status", *_NUMBERS):
        data[name] = [tuple(run[name] for run in lane) for lane in lanes]
    for name in ("name", "comment"):
        data[name] = [readable(row[name]) for row in comparisons]
    data["tags"] = [tuple(row["tags"]) for row in comparisons]
    data["source"] = [row["source"] for row in comparisons]
    data["run_ids"] = [tuple(run["id"] for run in lane) for lane in lanes]
    return pd.DataFrame(data)[[*COLUMNS, *NOTES]].astype({"created_at": "datetime64[us, UTC]"})


def _lanes(connection: Connection, comparison_ids: Sequence[str]) -> list[list[RowMapping]]:
    """The runs of each comparison, by lane, then order."""
    found: dict[str, list[RowMapping]] = {comparison_id: [] for comparison_id in comparison_ids}
    table = Run.__table__.c
    names = ("comparison_id", "id", "target", "rule", "rule_parameters", "status", *_NUMBERS)
    statement = select(*(table[name] for name in names)).order_by(Run.comparison_id, Run.lane, Run.execution_order)
    for start in range(0, len(comparison_ids), RUNS_OF_A_READ):
        asked = comparison_ids[start : start + RUNS_OF_A_READ]
        for run in connection.execute(statement.where(Run.comparison_id.in_(asked))).mappings():
            found[run["comparison_id"]].append(run)
    return list(found.values())
