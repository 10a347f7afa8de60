"""A table of comparisons, one row each, with their runs by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from sqlalchemy import Connection, RowMapping, func, select

from storage.lookup import batches
from storage.runs.records import rule_label
from storage.schema import Comparison, Run
from storage.schema.columns import SafeText
from storage.schema.text import readable

PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
COMPARISONS_A_READ = 500
_NUMBERS = ("new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share")
COLUMNS = ["id", "created_at", "prompt", "target", "rules", "status", *_NUMBERS]
_SETTINGS = ("drafter", "k", "tree_tokens", "temperature", "seed")
_NOTES = ["name", "tags", "comment", "source", "run_ids", *_SETTINGS]


def frame(connection: Connection, ids: Sequence[str]) -> pd.DataFrame:
    """In the order of the ids; columns as ``Lists.find`` says."""
    own = (
        Comparison.id,
        Comparison.created_at,
        Comparison.name,
        Comparison.tags,
        Comparison.comment,
        Comparison.source,
    )
    preview = func.substr(Comparison.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
    of_runs = ("comparison_id", "lane", "id", "target", "rule", "rule_parameters", "status", *_NUMBERS, *_SETTINGS)
    runs = select(*(Run.__table__.c[name] for name in of_runs)).order_by(
        Run.comparison_id, Run.lane, Run.execution_order
    )
    found: dict[str, RowMapping] = {}
    first: dict[str, dict[int, RowMapping]] = {id_: {} for id_ in ids}  # run of each lane
    for some in batches(ids, COMPARISONS_A_READ):
        rows = connection.execute(select(*own, preview).where(Comparison.id.in_(some))).mappings()
        found |= {row["id"]: row for row in rows}
        for run in connection.execute(runs.where(Run.comparison_id.in_(some))).mappings():
            first[run["comparison_id"]].setdefault(run["lane"], run)
    lanes = [list(each.values()) for each in first.values()]
    data: dict[str, list[Any]] = {name: [found[id_][name] for id_ in ids] for name in ("id", "created_at", "source")}
    for name in ("prompt", "name", "comment"):  # pandas keeps strings as UTF-8
        data[name] = [readable(found[id_][name]) for id_ in ids]
    data["tags"] = [tuple(found[id_]["tags"]) for id_ in ids]
    data["target"] = [readable(lane[0]["target"]) if lane else "" for lane in lanes]
    data["rules"] = [tuple(rule_label(run["rule"], run["rule_parameters"]) for run in lane) for lane in lanes]
    for name, column in (("run_ids", "id"), *((name, name) for name in ("status", *_NUMBERS, *_SETTINGS))):
        data[name] = [tuple(run[column] for run in lane) for lane in lanes]
    return pd.DataFrame(data)[[*COLUMNS, *_NOTES]].astype({"created_at": "datetime64[us, UTC]"})
