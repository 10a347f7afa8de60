"""The tables of studies (study → tasks → results → judgements) and of links to what is shared. Rules as in runs.py.

Tasks and results store ids of comparisons and runs without foreign keys: either may be deleted without the other.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from storage.schema.columns import AnyText, Base, ExactJson, Id, Json, Object, Owner, Part, SafeJson, Time, enum_column
from storage.schema.runs import Comparison, Sweep

_OPEN = text("done_at IS NULL")
_OBJECTS = ("comparison_id", "sweep_id", "study_id")


class Preferred(StrEnum):
    """The answer of a judge who compared a rule's text with its baseline's."""

    RULE = "rule"
    BASELINE = "baseline"
    TIE = "tie"


class Shared(StrEnum):
    """Kinds of objects that a link can show."""

    COMPARISON = "comparison"
    SWEEP = "sweep"
    STUDY = "study"


class Study(Base):
    """A plan of tasks. ``plan`` is defined by evaluation."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "owner", "created_at", "id"))

    id: Mapped[Id]
    created_at: Mapped[Time]
    name: Mapped[AnyText]
    tasks: Mapped[int]
    plan: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # an object
    owner: Mapped[Owner]


class StudyTask(Base):
    """One task: open, under a claim (``token``, ``worker``, ``claimed_until``), or done. The three are NULL without a claim."""

    __tablename__ = "study_tasks"
    __table_args__ = (Index("ix_study_tasks_open", "study_id", "task", sqlite_where=_OPEN, postgresql_where=_OPEN),)

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    task: Mapped[Part]  # 0-based
    token: Mapped[str | None] = mapped_column(String(32))  # token of the claim; replaced when the claim is lost
    worker: Mapped[AnyText | None]
    claimed_until: Mapped[Time | None]  # by the database's clock
    done_at: Mapped[Time | None]
    comparison_ids: Mapped[Json] = mapped_column(server_default="[]")  # one per turn


class StudyResult(Base):
    """The result of one lane of a task. ``data``, ``relative``: objects of evaluation."""

    __tablename__ = "study_results"
    __table_args__ = (
        ForeignKeyConstraint(["study_id", "task"], ["study_tasks.study_id", "study_tasks.task"], ondelete="CASCADE"),
        Index(None, "study_id", "worker", "created_at"),  # for the progress of a study
    )

    study_id: Mapped[Id]
    task: Mapped[Part]
    lane: Mapped[Part]
    created_at: Mapped[Time]  # by the database's clock
    worker: Mapped[AnyText]
    execution_order: Mapped[int]  # among the lanes of the task
    run_ids: Mapped[Json]  # one per turn
    data: Mapped[Object]
    relative: Mapped[Any | None] = mapped_column(SafeJson(none_as_null=True))  # NULL until the task is done


class Judgement(Base):
    """A judge's preference: a rule's text or its baseline's. ``swapped``: the baseline's came first."""

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
    judge: Mapped[AnyText]  # the model and further identifying settings
    choice: Mapped[Preferred] = mapped_column(enum_column(Preferred))
    text: Mapped[AnyText]  # the judge's reasons


class Link(Base):
    """Read access by link to a comparison, a sweep or a study. One link per object; deleted with it.

    Only a hash of the token is stored, so that links cannot be reconstructed from the database.
    """

    __tablename__ = "shares"
    __table_args__ = (
        CheckConstraint(" + ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END" for name in _OBJECTS) + " = 1"),
        Index(None, "owner", "created_at"),
        *(UniqueConstraint(name, name=f"uq_shares_{name}") for name in _OBJECTS),
    )

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)  # SHA-256, hexadecimal
    owner: Mapped[str] = mapped_column(String(64))  # owner of the object
    created_at: Mapped[Time]
    comparison_id: Mapped[str | None] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    sweep_id: Mapped[str | None] = mapped_column(ForeignKey(Sweep.id, ondelete="CASCADE"))
    study_id: Mapped[str | None] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"))
