"""The tables of studies: tasks → results → judgements."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from storage.schema.columns import Base, Id, Owner, Part, SafeJson

_OPEN = sa.text("done_at IS NULL")


class Preferred(StrEnum):
    """The answer of a judge who compared a rule's text with its baseline's."""

    RULE = "rule"
    BASELINE = "baseline"
    TIE = "tie"


class Study(Base):
    """A plan of tasks. ``plan`` is defined by evaluation."""

    __tablename__ = "studies"
    __table_args__ = (
        sa.Index(None, "created_at", "id"),
        sa.Index(None, "owner", "created_at", "id"),
    )

    id: Mapped[Id]
    created_at: Mapped[datetime]
    name: Mapped[str]
    tasks: Mapped[int]
    plan: Mapped[dict[str, Any]]
    owner: Mapped[Owner]
    # by the database's clock; NULL where nobody works on it
    working_until: Mapped[datetime | None]


class StudyTask(Base):
    """One task: open, or done."""

    __tablename__ = "study_tasks"
    __table_args__ = (
        sa.Index(
            "ix_study_tasks_open", "study_id", "task", sqlite_where=_OPEN, postgresql_where=_OPEN
        ),
    )

    study_id: Mapped[str] = mapped_column(
        sa.ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True
    )
    task: Mapped[Part]  # 0-based
    done_at: Mapped[datetime | None]
    comparison_ids: Mapped[list[Any]] = mapped_column(server_default="[]")  # one per turn


class StudyResult(Base):
    """The result of one lane of a task. ``data``, ``relative``: objects of evaluation."""

    __tablename__ = "study_results"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["study_id", "task"], ["study_tasks.study_id", "study_tasks.task"], ondelete="CASCADE"
        ),
        sa.Index(None, "study_id", "created_at"),  # for the progress of a study
    )

    study_id: Mapped[Id]
    task: Mapped[Part]
    lane: Mapped[Part]
    created_at: Mapped[datetime]  # by the database's clock
    worker: Mapped[str]
    execution_order: Mapped[int]  # among the lanes of the task
    run_ids: Mapped[list[Any]]  # one per turn
    data: Mapped[dict[str, Any]]
    relative: Mapped[Any | None] = mapped_column(
        SafeJson(none_as_null=True)
    )  # NULL until the task is done


class Judgement(Base):
    """A judge's preference: a rule's text or its baseline's. ``swapped``: the baseline's came
    first."""

    __tablename__ = "judgements"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["study_id", "task", "lane"],
            ["study_results.study_id", "study_results.task", "study_results.lane"],
            ondelete="CASCADE",
        ),
    )

    study_id: Mapped[Id]
    task: Mapped[Part]
    lane: Mapped[Part]
    swapped: Mapped[bool] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]
    judge: Mapped[str]  # the model and further identifying settings
    choice: Mapped[Preferred]
    text: Mapped[str]  # the judge's reasons
