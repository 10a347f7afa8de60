"""Derived columns and facets of comparisons, by which lists are searched, filtered and sorted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, RowMapping, bindparam, delete, insert, select, update

from storage.lookup import batches
from storage.schema import Comparison, Facet, Run
from storage.schema.runs import NAMELESS
from storage.schema.text import encode, folded

FACET_LENGTH = 200  # characters of a value
COMPARISONS_A_WRITE = 500
_BETWEEN = "Z"  # separator that does not occur in folded search texts
_END = "ZZ"  # so that three characters begin with any one
_BEST = ("tokens_per_s", "tau", "new_tokens")
_OWN = ("id", "created_at", "owner", "source", "deleted_at", "prompt", "name", "comment", "tags")
_FACETS = ("rule", "target", "status")
# Statements are built once: that takes longer than running them.
_SOME: BindParameter[Any] = bindparam("some", expanding=True)
_READ = select(*(Comparison.__table__.c[name] for name in _OWN)).where(Comparison.id.in_(_SOME))
_READ = _READ.order_by(Comparison.id).with_for_update(key_share=True)
_READ_RUNS = select(Run.comparison_id, *(Run.__table__.c[name] for name in (*_FACETS, *_BEST)))
_READ_RUNS = _READ_RUNS.where(Run.comparison_id.in_(_SOME))
_FORGET = delete(Facet).where(Facet.comparison_id.in_(_SOME))
_ADD = insert(Facet)
_CHANGE = (
    update(Comparison)
    .where(Comparison.id == bindparam("at"))
    .values({name: bindparam(f"new_{name}") for name in ("search", "name_key", "runs", *_BEST)})
)


def reindex(connection: Connection, comparison_ids: Iterable[str]) -> None:
    """Update the derived columns and facets of these comparisons. Call it after every change of them or their runs."""
    for some in batches(sorted(set(comparison_ids)), COMPARISONS_A_WRITE):
        rows = connection.execute(_READ, {"some": some}).mappings().all()
        runs: dict[str, list[RowMapping]] = {row["id"]: [] for row in rows}
        for run in connection.execute(_READ_RUNS, {"some": some}).mappings():
            runs[run["comparison_id"]].append(run)
        connection.execute(_FORGET, {"some": some})
        if facets := [facet for row in rows for facet in _facets(row, runs[row["id"]])]:
            connection.execute(_ADD, facets)
        if rows:
            connection.execute(_CHANGE, [_derived(row, runs[row["id"]]) for row in rows])


def haystack(prompt: str, name: str, comment: str, tags: Sequence[str]) -> str:
    """The folded texts that are searched; no match spans two texts."""
    return _BETWEEN.join(map(folded, (prompt, name, comment, *tags))) + _END


def _facets(row: RowMapping, runs: Sequence[RowMapping]) -> list[dict[str, Any]]:
    if row["deleted_at"] is not None:
        return []
    values = {(kind, str(run[kind])[:FACET_LENGTH]) for run in runs for kind in _FACETS}
    values |= {("tag", tag) for tag in row["tags"]}
    copied = {name: row[name] for name in ("created_at", "source", "owner")} | {"comparison_id": row["id"]}
    return [copied | {"kind": kind, "value": value} for kind, value in sorted(values)]


def _derived(row: RowMapping, runs: Sequence[RowMapping]) -> dict[str, Any]:
    found = {"search": haystack(row["prompt"], row["name"], row["comment"], row["tags"]), "runs": len(runs)}
    found |= {name: max((run[name] for run in runs if not math.isnan(run[name])), default=-1) for name in _BEST}
    found["name_key"] = encode(row["name"]).encode().lower() or NAMELESS
    return {"at": row["id"]} | {f"new_{name}": value for name, value in found.items()}
