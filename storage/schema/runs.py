"""The tables of runs: sweep → comparisons; comparison → runs → their traces; comparison → vote, facets.

Created only by migrations, which a test compares with these models: a change here needs a new file in migrations/versions.

Columns have the names of the fields in mars_core.types; where one would be unclear or clash, runs/records.py maps it. A nan
is NULL (columns.Real). Children are deleted with their parent (ON DELETE CASCADE); a comparison is kept when its sweep is deleted.
"""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from mars_core.types import DraftMode, Status, StopReason, Summary
from storage.schema.columns import (
    EMPTY,
    AnyText,
    Base,
    ExactJson,
    Id,
    Json,
    Large,
    ListJson,
    Number,
    Object,
    Owner,
    Real,
    SafeText,
    Time,
    enum_column,
)


class Source(StrEnum):
    """The origin of a comparison."""

    COMPARE = "compare"
    SWEEP = "sweep"
    VOTE = "vote"
    STUDY = "study"
    SERVER = "server"  # imported from the records of a server


class Choice(StrEnum):
    """The answer of a blind vote."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"
    BOTH_BAD = "both_bad"


MISSING_NUMBER = text("-1")  # sorts before every value of a run
NAMELESS = b"\xff"  # sorts after every name


class Sweep(Base):
    """Many runs over a grid of settings. ``plan`` and ``results`` are defined by evaluation."""

    __tablename__ = "sweeps"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "owner", "created_at", "id"))

    id: Mapped[Id]
    created_at: Mapped[Time]
    status: Mapped[Status] = mapped_column(enum_column(Status))
    plan: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # an object
    results: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # list of objects
    owner: Mapped[Owner]


_LISTED = ("created_at", "id", "source", "owner", "deleted_at")
_DELETED = text("deleted_at IS NOT NULL")


class Comparison(Base):
    """One prompt that was run in one or more lanes. The last columns are derived from the others and from the runs (runs/reindex.py)."""

    __tablename__ = "comparisons"
    __table_args__ = (
        Index("ix_comparisons_by_created_at", "created_at", "id", "source", "deleted_at"),  # lists and their filters
        Index("ix_comparisons_by_owner", "owner", "created_at", "id", "source", "deleted_at", "runs"),  # of one owner
        *(
            Index(f"ix_comparisons_by_{key}", key, *_LISTED)
            for key in ("tokens_per_s", "tau", "new_tokens", "name_key")
        ),
        Index(None, "deleted_at", sqlite_where=_DELETED, postgresql_where=_DELETED),
        Index(None, "number", unique=True),
        Index(None, "sweep_id"),
    )

    id: Mapped[Id]
    created_at: Mapped[Time]
    chat: Mapped[bool]
    prompt: Mapped[AnyText]
    system: Mapped[AnyText]
    stop: Mapped[Json]  # list of strings
    name: Mapped[AnyText] = mapped_column(server_default=EMPTY)
    tags: Mapped[Json] = mapped_column(server_default="[]")  # list of strings, sorted
    comment: Mapped[AnyText] = mapped_column(server_default=EMPTY)
    source: Mapped[Source] = mapped_column(enum_column(Source), server_default=Source.COMPARE.value)
    sweep_id: Mapped[str | None] = mapped_column(ForeignKey(Sweep.id, ondelete="SET NULL"))
    deleted_at: Mapped[Time | None]  # NULL: not deleted
    owner: Mapped[Owner]
    number: Mapped[int | None] = mapped_column(BigInteger)  # SQLite: its row in the full-text index, set by a trigger
    search: Mapped[str] = mapped_column(Text, server_default=EMPTY)  # runs.reindex.haystack of the texts above
    name_key: Mapped[bytes] = mapped_column(LargeBinary, default=NAMELESS)  # UTF-8, ASCII letters in lower case
    runs: Mapped[int] = mapped_column(server_default=text("0"))  # number of runs
    tokens_per_s: Mapped[float] = mapped_column(Double, server_default=MISSING_NUMBER)  # these three: of the best run
    tau: Mapped[float] = mapped_column(Double, server_default=MISSING_NUMBER)
    new_tokens: Mapped[int] = mapped_column(server_default=MISSING_NUMBER)


class Facet(Base):
    """A value that lists are filtered by: the rule, target or status of any run, or a tag. A deleted comparison has none.

    ``created_at``, ``source`` and ``owner`` are the comparison's. ``value`` is cut to 200 characters.
    """

    __tablename__ = "facets"
    __table_args__ = (
        Index("ix_facets_by_value", "kind", "value", "created_at", "comparison_id", "source", "owner"),
        Index("ix_facets_by_owner", "owner", "kind", "value"),
    )

    comparison_id: Mapped[str] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(8), primary_key=True)  # rule, target, status or tag
    value: Mapped[str] = mapped_column(SafeText, primary_key=True)
    created_at: Mapped[Time]
    source: Mapped[Source] = mapped_column(enum_column(Source))
    owner: Mapped[Owner]


class Run(Base):
    """One run: configuration, how it ended; below, a column for each number of Summary."""

    __tablename__ = "runs"
    __table_args__ = (UniqueConstraint("comparison_id", "lane", "execution_order"),)

    id: Mapped[Id]
    comparison_id: Mapped[str] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    lane: Mapped[int]  # column on the page, 0-based
    execution_order: Mapped[int]  # position in the execution order of the comparison's runs
    created_at: Mapped[Time]  # when it was saved
    status: Mapped[Status] = mapped_column(enum_column(Status))
    stop_reason: Mapped[StopReason] = mapped_column(enum_column(StopReason))

    rule: Mapped[AnyText]
    rule_parameters: Mapped[Object]  # name → number
    drafter: Mapped[AnyText]  # DrafterConfig.kind
    drafter_model: Mapped[AnyText | None]
    drafter_revision: Mapped[AnyText | None]
    k: Mapped[int]
    draft_mode: Mapped[DraftMode] = mapped_column(enum_column(DraftMode))
    tree_tokens: Mapped[int | None]  # these three: NULL where the drafter drafts chains
    tree_depth: Mapped[int | None]
    tree_top_k: Mapped[int | None]
    target: Mapped[AnyText]
    target_revision: Mapped[AnyText | None]
    temperature: Mapped[Number]
    top_k: Mapped[Large]
    top_p: Mapped[Number]
    max_new_tokens: Mapped[Large]
    seed: Mapped[Large]
    thinking: Mapped[bool | None]  # PromptConfig.thinking; NULL: the template's default
    pass_rows: Mapped[int | None]  # these two: RunConfig.passes, NULL where the run was not exact
    pass_width: Mapped[int | None]

    environment: Mapped[Object]  # versions, device, dtype: name → text
    error: Mapped[AnyText]
    prompt_ids: Mapped[Json]  # list of token ids
    text: Mapped[AnyText]
    prefix: Mapped[Json] = mapped_column(server_default="[]")  # list of token ids; RunConfig.prefix
    given: Mapped[Json] = mapped_column(server_default="[]")  # list of [id, piece, start, end]; Trace.given
    history: Mapped[Json] = mapped_column(server_default="[]")  # list of [user, answer]; PromptConfig.history


_OF_TYPE = {"int": Integer, "float": Real, "tuple[float, ...]": ListJson}
for _each in fields(Summary):  # a column for each, without a class attribute that mypy knows
    _kind = BigInteger if _each.name == "peak_memory_bytes" else _OF_TYPE[str(_each.type)]
    setattr(Run, _each.name, mapped_column(_kind, nullable=_kind is Real))


class RunTrace(Base):
    """The steps, tokens and drafted nodes of a run as one value (storage.traces.packing). ``version``: of its format."""

    __tablename__ = "run_traces"

    run_id: Mapped[str] = mapped_column(ForeignKey(Run.id, ondelete="CASCADE"), primary_key=True)
    version: Mapped[int]
    data: Mapped[bytes]


class Vote(Base):
    """A blind vote; at most one per comparison."""

    __tablename__ = "votes"
    __table_args__ = (UniqueConstraint("comparison_id"),)

    id: Mapped[Id]
    comparison_id: Mapped[str] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    created_at: Mapped[Time]
    choice: Mapped[Choice] = mapped_column(enum_column(Choice))
    left_run_id: Mapped[str] = mapped_column(ForeignKey(Run.id, ondelete="CASCADE", name="fk_votes_left_run"))
    right_run_id: Mapped[str] = mapped_column(ForeignKey(Run.id, ondelete="CASCADE", name="fk_votes_right_run"))
    comment: Mapped[AnyText]
