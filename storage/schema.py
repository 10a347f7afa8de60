"""The tables: comparison → runs → steps → tokens; sweep → comparisons; comparison → vote. More: study_schema.py, share_schema.py.

Made only by the migrations, with which a test compares these models: a change here needs a new file in migrations/versions.

Columns have the names of the fields in mars_core.types; where one would be unclear or clash, records.py maps it. A nan
is NULL (columns.Real). Every child goes with its parent (ON DELETE CASCADE); a comparison outlives its sweep.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import (
    BigInteger,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mars_core.types import DraftMode, Outcome, Status, StopReason
from storage.columns import ExactJson, Real, SafeJson, SafeText, UtcTime
from storage.words import Choice, Source

Words = Annotated[str, mapped_column(SafeText)]
Json = Annotated[Any, mapped_column(SafeJson, nullable=False)]
Number = Annotated[float, mapped_column(Real, nullable=True)]
EMPTY = text("''")  # default of columns that a later migration added
Owner = Annotated[str, mapped_column(String(64), server_default=EMPTY)]  # empty: everybody
Large = Annotated[int, mapped_column(BigInteger)]


def words(enum: type[StrEnum]) -> Enum:
    """A column holding the values of ``enum`` as plain words, so that a later word needs no new database type."""
    return Enum(enum, native_enum=False, length=16, values_callable=lambda members: [str(item) for item in members])


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )


class Sweep(Base):
    """Many runs over a grid of settings. ``plan`` and ``results`` are what evaluation makes of them."""

    __tablename__ = "sweeps"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "owner", "created_at", "id"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)  # uuid4, hexadecimal
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    status: Mapped[Status] = mapped_column(words(Status))
    plan: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # an object
    results: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # list of objects
    owner: Mapped[Owner]


class Comparison(Base):
    """One prompt that was run in one or more lanes."""

    __tablename__ = "comparisons"
    __table_args__ = (
        Index(None, "deleted_at", "created_at", "id", "source"),  # a list, and what it leaves out
        Index(None, "owner", "deleted_at", "created_at", "id", "source"),  # the same of one owner
        Index(None, "sweep_id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)  # uuid4, hexadecimal
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    chat: Mapped[bool]
    prompt: Mapped[Words]
    system: Mapped[Words]
    stop: Mapped[Json]  # list of strings
    name: Mapped[Words] = mapped_column(server_default=EMPTY)
    tags: Mapped[Json] = mapped_column(server_default="[]")  # list of strings, sorted
    comment: Mapped[Words] = mapped_column(server_default=EMPTY)
    source: Mapped[Source] = mapped_column(words(Source), server_default=Source.COMPARE.value)
    sweep_id: Mapped[str | None] = mapped_column(ForeignKey(Sweep.id, ondelete="SET NULL"))
    deleted_at: Mapped[datetime | None] = mapped_column(UtcTime)  # NULL: it is there
    search: Mapped[str] = mapped_column(Text, server_default=EMPTY)  # storage.search.haystack of the texts above
    owner: Mapped[Owner]


class Run(Base):
    """One run: configuration, how it ended, summary. Long columns come last, so that lists need not read them."""

    __tablename__ = "runs"
    __table_args__ = (
        UniqueConstraint("comparison_id", "lane", "execution_order"),
        Index(None, "comparison_id", "status", "tokens_per_s", "tau", "new_tokens"),  # what a list is sorted by
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)  # uuid4, hexadecimal
    comparison_id: Mapped[str] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    lane: Mapped[int]  # column on the page, 0-based
    execution_order: Mapped[int]  # in which order the runs of the comparison were executed
    created_at: Mapped[datetime] = mapped_column(UtcTime)  # when it was saved
    status: Mapped[Status] = mapped_column(words(Status))
    stop_reason: Mapped[StopReason] = mapped_column(words(StopReason))

    rule: Mapped[Words]
    rule_parameters: Mapped[Json]  # name → number
    drafter: Mapped[Words]  # DrafterConfig.kind
    drafter_model: Mapped[Words | None]
    drafter_revision: Mapped[Words | None]
    k: Mapped[int]
    draft_mode: Mapped[DraftMode] = mapped_column(words(DraftMode))
    tree_tokens: Mapped[int | None]  # these three: NULL where the drafter drafts chains
    tree_depth: Mapped[int | None]
    tree_top_k: Mapped[int | None]
    target: Mapped[Words]
    target_revision: Mapped[Words | None]
    temperature: Mapped[Number]
    top_k: Mapped[Large]
    top_p: Mapped[Number]
    max_new_tokens: Mapped[Large]
    seed: Mapped[Large]
    thinking: Mapped[bool | None]  # PromptConfig.thinking; NULL: the template's own
    pass_rows: Mapped[int | None]  # these two: RunConfig.passes, NULL where the run was not exact
    pass_width: Mapped[int | None]

    new_tokens: Mapped[int]
    prompt_tokens: Mapped[int]
    steps: Mapped[int]
    wall_s: Mapped[Number]
    ttft_s: Mapped[Number]
    prefill_s: Mapped[Number]
    draft_s: Mapped[Number]
    verify_s: Mapped[Number]
    tokens_per_s: Mapped[Number]
    tau: Mapped[Number]
    drafted: Mapped[int]
    accepted: Mapped[int]
    relaxed: Mapped[int]
    rejected: Mapped[int]
    recovered: Mapped[int]
    bonus: Mapped[int]
    acceptance_rate: Mapped[Number]
    relaxed_share: Mapped[Number]
    tv_sum: Mapped[Number]
    tv_mean: Mapped[Number]
    tv_max: Mapped[Number]
    kl_sum: Mapped[Number]
    kl_mean: Mapped[Number]
    kl_max: Mapped[Number]
    shifted_share: Mapped[Number]
    log_likelihood: Mapped[Number]
    perplexity: Mapped[Number]
    peak_memory_bytes: Mapped[Large]
    acceptance_by_position: Mapped[Json]  # list of numbers

    environment: Mapped[Json]  # versions, device, dtype: name → text
    error: Mapped[Words]
    prompt_ids: Mapped[Json]  # list of token ids
    text: Mapped[Words]
    prefix: Mapped[Json] = mapped_column(server_default="[]")  # list of token ids; RunConfig.prefix
    given: Mapped[Json] = mapped_column(server_default="[]")  # list of [id, piece, start, end]; Trace.given
    history: Mapped[Json] = mapped_column(server_default="[]")  # list of [user, answer]; PromptConfig.history


class Step(Base):
    """One draft and one target pass."""

    __tablename__ = "steps"

    run_id: Mapped[str] = mapped_column(ForeignKey(Run.id, ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 0-based
    drafted: Mapped[int]
    kept: Mapped[int]
    draft_s: Mapped[Number]
    verify_s: Mapped[Number]
    elapsed_s: Mapped[Number]
    nodes: Mapped[Json]  # list of [id, piece, parent, depth, p, q, outcome]


class Token(Base):
    """One emitted or rejected token; ``ordinal`` is its place in the step's list."""

    __tablename__ = "tokens"
    __table_args__ = (ForeignKeyConstraint(["run_id", "step"], ["steps.run_id", "steps.step"], ondelete="CASCADE"),)

    run_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int]
    draft_position: Mapped[int]
    node: Mapped[int]
    parent: Mapped[int]
    outcome: Mapped[Outcome] = mapped_column(words(Outcome))
    token_id: Mapped[int]
    piece: Mapped[Words]
    char_start: Mapped[int]
    char_end: Mapped[int]
    z1: Mapped[Number]
    z2: Mapped[Number]
    id1: Mapped[int]
    id2: Mapped[int]
    r: Mapped[Number]
    gap: Mapped[Number]
    own: Mapped[int]
    own_piece: Mapped[Words]
    p: Mapped[Number]
    q: Mapped[Number]
    rank: Mapped[int]
    entropy: Mapped[Number]
    forgiveness: Mapped[Number]
    u: Mapped[Number]
    coin: Mapped[Number]
    edge: Mapped[Number]
    tv: Mapped[Number]
    kl: Mapped[Number]
    logprob: Mapped[Number]
    top: Mapped[Json]  # list of [id, piece, p]


class Vote(Base):
    """What a reader who saw no names preferred; one a comparison."""

    __tablename__ = "votes"
    __table_args__ = (UniqueConstraint("comparison_id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)  # uuid4, hexadecimal
    comparison_id: Mapped[str] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    choice: Mapped[Choice] = mapped_column(words(Choice))
    left_run_id: Mapped[str] = mapped_column(ForeignKey(Run.id, ondelete="CASCADE", name="fk_votes_left_run"))
    right_run_id: Mapped[str] = mapped_column(ForeignKey(Run.id, ondelete="CASCADE", name="fk_votes_right_run"))
    comment: Mapped[Words]
