"""The tables of studies (study → tasks → results → judgements) and of links to what is shared. Rules as in runs.py.

Tasks and results name comparisons and runs without referring to them: either may be deleted without the other.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from storage.schema.columns import Base, ExactJson, Id, Json, Object, Owner, Part, SafeJson, Time, Words, words
from storage.schema.runs import Comparison, Sweep

_OPEN = text("done_at IS NULL")
_OBJECTS = ("comparison_id", "sweep_id", "study_id")


class Preferred(StrEnum):
    """The answer of a judge who compared a rule's text with its baseline's."""

    RULE = "rule"
    BASELINE = "baseline"
    TIE = "tie"


class Shared(StrEnum):
    """What a link can show."""

    COMPARISON = "comparison"
    SWEEP = "sweep"
    STUDY = "study"


class Study(Base):
    """A plan of tasks. ``plan`` is what evaluation makes of it."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "owner", "created_at", "id"))

    id: Mapped[Id]
    created_at: Mapped[Time]
    name: Mapped[Words]
    tasks: Mapped[int]
    plan: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # an object
    owner: Mapped[Owner]


class StudyTask(Base):
    """One task: open, under a claim (``token``, ``worker``, ``claimed_until``), or done. The three are NULL without a claim."""

    __tablename__ = "study_tasks"
    __table_args__ = (Index("ix_study_tasks_open", "study_id", "task", sqlite_where=_OPEN, postgresql_where=_OPEN),)

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    task: Mapped[Part]  # 0-based
    token: Mapped[str | None] = mapped_column(String(32))  # of the claim; a lost one is not there any more
    worker: Mapped[Words | None]
    claimed_until: Mapped[Time | None]  # by the database's clock
    done_at: Mapped[Time | None]
    comparison_ids: Mapped[Json] = mapped_column(server_default="[]")  # one a turn


class StudyResult(Base):
    """What one lane of a task came to. ``data``, ``relative``: objects of evaluation."""

    __tablename__ = "study_results"
    __table_args__ = (
        ForeignKeyConstraint(["study_id", "task"], ["study_tasks.study_id", "study_tasks.task"], ondelete="CASCADE"),
        Index(None, "study_id", "worker", "created_at"),  # what a progress is counted from
    )

    study_id: Mapped[Id]
    task: Mapped[Part]
    lane: Mapped[Part]
    created_at: Mapped[Time]  # by the database's clock
    worker: Mapped[Words]
    execution_order: Mapped[int]  # among the lanes of the task
    run_ids: Mapped[Json]  # one a turn
    data: Mapped[Object]
    relative: Mapped[Any | None] = mapped_column(SafeJson(none_as_null=True))  # NULL until the task is done


class Judgement(Base):
    """What a judge preferred: a rule's text or its baseline's. ``swapped``: the baseline's stood first."""

    __tablename__ = "judgements"
    __table_args__ = (
        ForeignKeyConstraint(
            ["study_id", "task", "lane"],
            ["study_results.study_id", "study_results.task", "study_results.lane"],
            ondelete="CASCADE",
        ),
    )

    study_id: Mapped[Id]
    task: Mapped[Part]
    lane: Mapped[Part]
    swapped: Mapped[bool] = mapped_column(primary_key=True)
    created_at: Mapped[Time]
    judge: Mapped[Words]  # the model, with what else tells it from others
    choice: Mapped[Preferred] = mapped_column(words(Preferred))
    text: Mapped[Words]  # the judge's reasons


class Link(Base):
    """One object that whoever has the link may read: a comparison, a sweep or a study. One link an object; it goes with it.

    Only a hash of what is in the link is stored: whoever reads the database, or a copy of it, can open none.
    """

    __tablename__ = "shares"
    __table_args__ = (
        CheckConstraint(" + ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END" for name in _OBJECTS) + " = 1"),
        Index(None, "owner", "created_at"),
        *(UniqueConstraint(name, name=f"uq_shares_{name}") for name in _OBJECTS),
    )

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)  # SHA-256, hexadecimal
    owner: Mapped[str] = mapped_column(String(64))  # that of the object
    created_at: Mapped[Time]
    comparison_id: Mapped[str | None] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    sweep_id: Mapped[str | None] = mapped_column(ForeignKey(Sweep.id, ondelete="CASCADE"))
    study_id: Mapped[str | None] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"))
