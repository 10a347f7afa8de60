"""By what lists are searched, filtered and sorted: derived columns and facets of comparisons, and
the database's index of their texts.

Texts: on SQLite ``comparison_texts``, FTS5 with the trigrams of ``comparisons.search``, updated by
triggers; its rows have the numbers of ``comparisons.number``, for VACUUM may change a rowid. It
stores no positions: what it finds is compared with the text. On PostgreSQL LIKE, with an index by
pg_trgm; where that cannot be made, texts are read one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from storage.schema import NAMELESS, ComparisonRow, Facet, RunRow
from storage.schema.text import folded
from storage.scope import batches

FACET_LENGTH = 200  # characters of a value
_BETWEEN = "Z"  # separator that does not occur in folded search texts
_BEST = ("tokens_per_s", "tau", "new_tokens")
_COLUMNS = (
    "id",
    "created_at",
    "owner",
    "source",
    "deleted_at",
    "prompt",
    "name",
    "comment",
    "tags",
)
_FACETS = ("rule", "target", "status")
# Statements are built once: that takes longer than running them.
_SOME: sa.BindParameter[Any] = sa.bindparam("some", expanding=True)
_READ = sa.select(*(ComparisonRow.__table__.c[name] for name in _COLUMNS)).where(
    ComparisonRow.id.in_(_SOME)
)
_READ = _READ.order_by(ComparisonRow.id).with_for_update(key_share=True)
_READ_RUNS = sa.select(
    RunRow.comparison_id,
    *(RunRow.__table__.c[name] for name in ("turn", "question", *_FACETS, *_BEST)),
)
_READ_RUNS = _READ_RUNS.where(RunRow.comparison_id.in_(_SOME))
_FORGET = sa.delete(Facet).where(Facet.comparison_id.in_(_SOME))
_ADD = sa.insert(Facet)
_CHANGE = (
    sa.update(ComparisonRow)
    .where(ComparisonRow.id == sa.bindparam("at"))
    .values({name: sa.bindparam(f"new_{name}") for name in ("search", "name_key", "runs", *_BEST)})
)

PAGES_A_MERGE = 200  # written in one transaction, about
MAX_TERMS = 16  # trigrams of a long text; more would hardly reduce the candidates
_TEXTS = sa.table("comparison_texts", sa.column("rowid"))
_FORGET_OLD = "INSERT INTO comparison_texts (comparison_texts, rowid, search) VALUES ('delete', old.number, old.search);"
_ADD_NEW = "INSERT INTO comparison_texts (rowid, search) SELECT number, search FROM comparisons WHERE id = new.id;"
_NUMBER = (
    "UPDATE comparisons SET number = (SELECT coalesce(max(number), 0) + 1 FROM comparisons) "
    "WHERE id = new.id AND number IS NULL;"
)
_INDEX = {
    "sqlite": (
        "UPDATE comparisons SET number = rowid",
        "CREATE VIRTUAL TABLE comparison_texts USING fts5(search, content = 'comparisons', "
        "content_rowid = 'number', tokenize = 'trigram case_sensitive 1', detail = none)",
        "INSERT INTO comparison_texts (comparison_texts) VALUES ('rebuild')",
        f"CREATE TRIGGER comparisons_inserted AFTER INSERT ON comparisons BEGIN {_NUMBER} "
        f"{_ADD_NEW} END",
        "CREATE TRIGGER comparisons_changed AFTER UPDATE OF search ON comparisons WHEN old.search "
        f"<> new.search BEGIN {_FORGET_OLD} {_ADD_NEW} END",
        f"CREATE TRIGGER comparisons_deleted AFTER DELETE ON comparisons BEGIN {_FORGET_OLD} END",
    ),
    "postgresql": (
        "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE INDEX ix_comparisons_search "
        "ON comparisons USING gin (search gin_trgm_ops); EXCEPTION WHEN OTHERS THEN NULL; END $$",
    ),
}


def create_index(connection: sa.Connection) -> None:
    """Create the index of texts, once the tables exist."""
    for statement in _INDEX[connection.dialect.name]:
        connection.exec_driver_sql(statement)


def reindex(connection: sa.Connection, comparison_ids: Iterable[str]) -> None:
    """Update the derived columns and facets of these comparisons. Call it after every change of
    them or their runs."""
    for some in batches(sorted(set(comparison_ids))):
        rows = connection.execute(_READ, {"some": some}).mappings().all()
        runs: dict[str, list[sa.RowMapping]] = {row["id"]: [] for row in rows}
        for run in connection.execute(_READ_RUNS, {"some": some}).mappings():
            runs[run["comparison_id"]].append(run)
        connection.execute(_FORGET, {"some": some})
        if facets := [facet for row in rows for facet in _facets(row, runs[row["id"]])]:
            connection.execute(_ADD, facets)
        if rows:
            connection.execute(_CHANGE, [_derived(row, runs[row["id"]]) for row in rows])


def _facets(row: sa.RowMapping, runs: Sequence[sa.RowMapping]) -> list[dict[str, Any]]:
    if row["deleted_at"] is not None:
        return []
    values = {(kind, str(run[kind])[:FACET_LENGTH]) for run in runs for kind in _FACETS}
    values |= {("tag", tag) for tag in row["tags"]}
    copied = {name: row[name] for name in ("created_at", "source", "owner")} | {
        "comparison_id": row["id"]
    }
    return [copied | {"kind": kind, "value": value} for kind, value in sorted(values)]


def _derived(row: sa.RowMapping, runs: Sequence[sa.RowMapping]) -> dict[str, Any]:
    questions = {run["turn"]: run["question"] for run in runs if run["question"]}
    later = (questions[turn] for turn in sorted(questions))
    # no match spans two of them
    texts = (row["prompt"], *later, row["name"], row["comment"], *row["tags"])
    values = {"search": _BETWEEN.join(map(folded, texts)), "runs": len(runs)}
    values |= {
        name: max((run[name] for run in runs if not math.isnan(run[name])), default=-1)
        for name in _BEST
    }
    values["name_key"] = row["name"].encode().lower() or NAMELESS
    return {"at": row["id"]} | {f"new_{name}": value for name, value in values.items()}


def containing(connection: sa.Connection, wanted: str) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that ``comparisons.search`` contains ``wanted``, which is folded. Texts
    of one or two characters are read one by one: no index has them."""
    if connection.dialect.name != "sqlite":
        return [ComparisonRow.search.contains(wanted, autoescape=True)]
    there = sa.func.instr(ComparisonRow.search, wanted) > 0
    terms = list(dict.fromkeys(wanted[start : start + 3] for start in range(len(wanted) - 2)))
    if not terms:
        return [there]
    query = " ".join(
        f'"{term.replace(chr(34), 2 * chr(34))}"' for term in terms[:: -(-len(terms) // MAX_TERMS)]
    )
    match = sa.literal_column("comparison_texts").op("MATCH")(query)
    return [ComparisonRow.number.in_(sa.select(_TEXTS.c.rowid).where(match)), there]


def forget_texts(connection: sa.Connection, *, begin: bool = False) -> int:
    """Merge, on SQLite, some pages of the full-text index, which removes deleted texts; 0 when
    there is nothing to merge."""
    merge = sa.text(
        "INSERT INTO comparison_texts (comparison_texts, rank) VALUES ('merge', :pages)"
    )
    changes = "SELECT total_changes()"
    before: int = connection.exec_driver_sql(changes).scalar_one()
    connection.execute(merge, {"pages": -PAGES_A_MERGE if begin else PAGES_A_MERGE})
    changed: int = connection.exec_driver_sql(changes).scalar_one() - before
    return changed if changed > 1 else 0
