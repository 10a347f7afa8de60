"""The tables of studies: study → tasks → results → judgements. Rules as in schema.py.

Tasks and results name comparisons and runs without referring to them: either may be deleted without the other.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from storage.columns import ExactJson, SafeJson, UtcTime
from storage.schema import Base, Json, Owner, Words, words
from storage.words import Preferred

_OPEN = text("done_at IS NULL")


class Study(Base):
    """A plan of tasks. ``plan`` is what evaluation makes of it."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "owner", "created_at", "id"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)  # uuid4, hexadecimal
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    name: Mapped[Words]
    tasks: Mapped[int]
    plan: Mapped[Any] = mapped_column(ExactJson, nullable=False)  # an object
    owner: Mapped[Owner]


class StudyTask(Base):
    """One task: open, under a claim (``token``, ``worker``, ``claimed_until``), or done. The three are NULL without a claim."""

    __tablename__ = "study_tasks"
    __table_args__ = (Index("ix_study_tasks_open", "study_id", "task", sqlite_where=_OPEN, postgresql_where=_OPEN),)

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    task: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # 0-based
    token: Mapped[str | None] = mapped_column(String(32))  # of the claim; a lost one is not there any more
    worker: Mapped[Words | None]
    claimed_until: Mapped[datetime | None] = mapped_column(UtcTime)  # by the database's clock
    done_at: Mapped[datetime | None] = mapped_column(UtcTime)
    comparison_ids: Mapped[Json] = mapped_column(server_default="[]")  # one a turn


class StudyResult(Base):
    """What one lane of a task came to. ``data``, ``relative``: objects of evaluation."""

    __tablename__ = "study_results"
    __table_args__ = (
        ForeignKeyConstraint(["study_id", "task"], ["study_tasks.study_id", "study_tasks.task"], ondelete="CASCADE"),
        Index(None, "study_id", "worker", "created_at"),  # what a progress is counted from
    )

    study_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    task: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    lane: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    created_at: Mapped[datetime] = mapped_column(UtcTime)  # by the database's clock
    worker: Mapped[Words]
    execution_order: Mapped[int]  # among the lanes of the task
    run_ids: Mapped[Json]  # one a turn
    data: Mapped[Json]
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

    study_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    task: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    lane: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    swapped: Mapped[bool] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    judge: Mapped[Words]  # the model, with what else tells it from others
    choice: Mapped[Preferred] = mapped_column(words(Preferred))
    text: Mapped[Words]  # the judge's reasons
