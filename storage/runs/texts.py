"""Substring search: the condition, and candidates from the database's full-text index."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, column, false, func, literal_column, select, table, text
from sqlalchemy.orm import InstrumentedAttribute

from storage.schema import Comparison

TRIGRAM = 3  # characters of an indexed part of a text
PAGES_A_MERGE = 200  # written in one transaction, about
MAX_TERMS = 16  # of a long text; more terms would hardly reduce the candidates
MAX_ALTERNATIVES = 500  # trigrams that begin with a short text
_TEXTS = table("comparison_texts", column("rowid"))
_TRIGRAMS = text("SELECT term, doc FROM comparison_trigrams WHERE term >= :first AND term < :last")
_REPLACED = re.compile("[\ufffe\uffff]")  # replaced by FTS5
_LAST = "\U0010ffff" * 3
Candidates = tuple[
    InstrumentedAttribute[Any], Select[*tuple[Any, ...]]
]  # a column of comparisons, and its values that qualify


def containing(connection: Connection, wanted: str) -> ColumnElement[bool]:
    """The condition that ``comparisons.search`` contains ``wanted``, which is folded."""
    if connection.dialect.name == "sqlite":
        return func.instr(Comparison.search, wanted) > 0
    if len(wanted) < TRIGRAM:  # not indexed by pg_trgm
        return func.strpos(Comparison.search, wanted) > 0
    return Comparison.search.contains(wanted, autoescape=True)


def candidates(connection: Connection, wanted: str, few: int) -> Candidates | None:
    """A superset of the comparisons that contain ``wanted``, which is folded; None where the index cannot be used: for a text of one or
    two characters on PostgreSQL, and on SQLite if it finds more than ``few`` for such a text."""
    if connection.dialect.name != "sqlite":
        own = select(Comparison.id).where(containing(connection, wanted))
        return (Comparison.id, own) if len(wanted) >= TRIGRAM else None
    terms, word = {wanted[start : start + 3]: 0 for start in range(len(wanted) - 2)}, " AND "
    if not terms:
        word, found = " OR ", 0
        first = _REPLACED.sub("\ufffd", wanted)
        for term, comparisons in connection.execute(_TRIGRAMS, {"first": first, "last": first + _LAST}):
            terms[term] = found = found + comparisons
            if found > few or len(terms) > MAX_ALTERNATIVES:
                return None
    chosen = list(terms)
    if word == " AND ":
        chosen = chosen[:: -(-len(chosen) // MAX_TERMS)]
    query = word.join(f'"{term.replace(chr(34), 2 * chr(34))}"' for term in chosen)
    match = literal_column("comparison_texts").op("MATCH")(query) if chosen else false()
    return Comparison.number, select(_TEXTS.c.rowid).where(match)


def forget_texts(connection: Connection, *, begin: bool = False) -> int:
    """On SQLite, merge some pages of the full-text index, which removes deleted texts; 0 when there is nothing to merge."""
    merge = text("INSERT INTO comparison_texts (comparison_texts, rank) VALUES ('merge', :pages)")
    changes = "SELECT total_changes()"
    before: int = connection.exec_driver_sql(changes).scalar_one()
    connection.execute(merge, {"pages": -PAGES_A_MERGE if begin else PAGES_A_MERGE})
    changed: int = connection.exec_driver_sql(changes).scalar_one() - before
    return changed if changed > 1 else 0
