"""The tables: comparison → runs → their traces; comparison → vote, facets; study → tasks → results
→ judgements; and links to what is shared.

A new database has them as they are here; an older one is changed by a migration, so a change here
needs a new file in migrations/versions.

A nan is NULL (columns.Real). Children are deleted with their parent (ON DELETE CASCADE). Tasks and
results store ids of comparisons and runs without foreign keys: either may be deleted without the
other.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from mars_core.types import Status
from storage.schema.columns import EMPTY, Id, Owner, Part, column_of
from storage.schema.columns import Base as Base
from storage.schema.studies import Judgement as Judgement
from storage.schema.studies import Preferred as Preferred
from storage.schema.studies import Study as Study
from storage.schema.studies import StudyResult as StudyResult
from storage.schema.studies import StudyTask as StudyTask
from storage.schema.trace import COUNTERFACTUAL, FIELDS

MISSING_NUMBER = sa.text("-1")  # sorts before every value of a run
NAMELESS = b"\xff"  # sorts after every name


class Source(StrEnum):
    """The origin of a comparison."""

    COMPARE = "compare"
    VOTE = "vote"
    STUDY = "study"
    SERVER = "server"  # imported from the records of a server


class Choice(StrEnum):
    """The answer of a blind vote."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"
    BOTH_BAD = "both_bad"


class Shared(StrEnum):
    """Kinds of objects that a link can show."""

    COMPARISON = "comparison"
    STUDY = "study"


_IN_LISTS = ("created_at", "id", "source", "owner", "deleted_at")
_DELETED = sa.text("deleted_at IS NOT NULL")


class ComparisonRow(Base):
    """One prompt that was run in one or more lanes. The last columns are derived from the others
    and from the runs (index.py)."""

    __tablename__ = "comparisons"
    __table_args__ = (
        sa.Index(
            "ix_comparisons_by_created_at", "created_at", "id", "source", "deleted_at"
        ),  # lists and their filters
        sa.Index(
            "ix_comparisons_by_owner", "owner", "created_at", "id", "source", "deleted_at", "runs"
        ),  # of one owner
        *(
            sa.Index(f"ix_comparisons_by_{key}", key, *_IN_LISTS)
            for key in ("tokens_per_s", "tau", "new_tokens", "name_key")
        ),
        sa.Index(None, "deleted_at", sqlite_where=_DELETED, postgresql_where=_DELETED),
        sa.Index(None, "number", unique=True),
    )

    id: Mapped[Id]
    created_at: Mapped[datetime]
    chat: Mapped[bool]
    prompt: Mapped[str]
    system: Mapped[str]
    stop: Mapped[list[Any]]  # list of strings
    name: Mapped[str] = mapped_column(server_default=EMPTY)
    tags: Mapped[list[Any]] = mapped_column(server_default="[]")  # list of strings, sorted
    comment: Mapped[str] = mapped_column(server_default=EMPTY)
    source: Mapped[Source] = mapped_column(server_default=Source.COMPARE.value)
    deleted_at: Mapped[datetime | None]  # NULL: not deleted
    owner: Mapped[Owner]
    number: Mapped[int | None] = mapped_column(
        sa.BigInteger
    )  # SQLite: its row in the full-text index, set by a trigger
    search: Mapped[str] = mapped_column(
        sa.Text, server_default=EMPTY
    )  # the folded texts above (index.py)
    name_key: Mapped[bytes] = mapped_column(default=NAMELESS)  # UTF-8, ASCII letters in lower case
    runs: Mapped[int] = mapped_column(server_default=sa.text("0"))  # number of runs
    tokens_per_s: Mapped[float] = mapped_column(
        sa.Double, server_default=MISSING_NUMBER
    )  # these three: of the best run
    tau: Mapped[float] = mapped_column(sa.Double, server_default=MISSING_NUMBER)
    new_tokens: Mapped[int] = mapped_column(server_default=MISSING_NUMBER)


class Facet(Base):
    """A value that lists are filtered by: the rule, target or status of any run, or a tag. A
    deleted comparison has none.

    ``created_at``, ``source`` and ``owner`` are the comparison's. ``value`` is cut to 200
    characters.
    """

    __tablename__ = "facets"
    __table_args__ = (
        sa.Index(
            "ix_facets_by_value", "kind", "value", "created_at", "comparison_id", "source", "owner"
        ),
        sa.Index("ix_facets_by_owner", "owner", "kind", "value"),
    )

    comparison_id: Mapped[str] = mapped_column(
        sa.ForeignKey(ComparisonRow.id, ondelete="CASCADE"), primary_key=True
    )
    kind: Mapped[str] = mapped_column(sa.String(8), primary_key=True)  # rule, target, status or tag
    value: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]
    source: Mapped[Source]
    owner: Mapped[Owner]


class RunRow(Base):
    """One run. Its further columns are the fields of a Trace (trace.py)."""

    __tablename__ = "runs"
    __table_args__ = (sa.UniqueConstraint("comparison_id", "lane", "execution_order"),)

    id: Mapped[Id]
    comparison_id: Mapped[str] = mapped_column(sa.ForeignKey(ComparisonRow.id, ondelete="CASCADE"))
    lane: Mapped[int]  # column on the page, 0-based
    execution_order: Mapped[int]  # position in the execution order of the comparison's runs
    created_at: Mapped[datetime]  # when it was saved
    turn: Mapped[int] = mapped_column(server_default=sa.text("0"))  # turns before, in its history
    question: Mapped[str | None]  # prompt of a later turn; NULL: the comparison's
    status: Mapped[Status]
    rule: Mapped[str]
    rule_parameters: Mapped[dict[str, Any]]  # name → number, or text of an expression
    target: Mapped[str]
    text: Mapped[str]
    top_k: Mapped[int] = mapped_column(sa.BigInteger)
    max_new_tokens: Mapped[int] = mapped_column(sa.BigInteger)
    seed: Mapped[int] = mapped_column(sa.BigInteger)
    peak_memory_bytes: Mapped[int] = mapped_column(sa.BigInteger)


class RunTrace(Base):
    """The steps, tokens and drafted nodes of a run as one value (storage.traces.packing).
    ``version``: of its format."""

    __tablename__ = "run_traces"

    run_id: Mapped[str] = mapped_column(
        sa.ForeignKey(RunRow.id, ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int]
    data: Mapped[bytes]


class CounterfactualRow(Base):
    """What would have followed a relaxed token of a run. Its further columns are the fields of a
    Counterfactual."""

    __tablename__ = "counterfactuals"

    run_id: Mapped[str] = mapped_column(
        sa.ForeignKey(RunRow.id, ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[Part]


for _table, _fields in ((RunRow, FIELDS), (CounterfactualRow, COUNTERFACTUAL.in_columns())):
    for _each in _fields:
        if _each.column not in _table.__table__.c:
            setattr(_table, _each.column, column_of(_each))


class Vote(Base):
    """A blind vote; at most one per comparison."""

    __tablename__ = "votes"
    __table_args__ = (sa.UniqueConstraint("comparison_id"),)

    id: Mapped[Id]
    comparison_id: Mapped[str] = mapped_column(sa.ForeignKey(ComparisonRow.id, ondelete="CASCADE"))
    created_at: Mapped[datetime]
    choice: Mapped[Choice]
    left_run_id: Mapped[str] = mapped_column(
        sa.ForeignKey(RunRow.id, ondelete="CASCADE", name="fk_votes_left_run")
    )
    right_run_id: Mapped[str] = mapped_column(
        sa.ForeignKey(RunRow.id, ondelete="CASCADE", name="fk_votes_right_run")
    )
    comment: Mapped[str]


_OBJECTS = ("comparison_id", "study_id")


class Link(Base):
    """Read access by link to a comparison or a study. One link per object; deleted with it.

    Only a hash of the token is stored, so that links cannot be reconstructed from the database.
    """

    __tablename__ = "shares"
    __table_args__ = (
        sa.CheckConstraint(
            " + ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END" for name in _OBJECTS) + " = 1"
        ),
        sa.Index(None, "owner", "created_at"),
        *(sa.UniqueConstraint(name, name=f"uq_shares_{name}") for name in _OBJECTS),
    )

    token_hash: Mapped[str] = mapped_column(sa.String(64), primary_key=True)  # SHA-256, hexadecimal
    owner: Mapped[str] = mapped_column(sa.String(64))  # owner of the object
    created_at: Mapped[datetime]
    comparison_id: Mapped[str | None] = mapped_column(
        sa.ForeignKey(ComparisonRow.id, ondelete="CASCADE")
    )
    study_id: Mapped[str | None] = mapped_column(sa.ForeignKey(Study.id, ondelete="CASCADE"))
