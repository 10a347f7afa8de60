"""Studies: plan, tasks, results, judgements; the earlier turns of a conversation. Frozen, as 0001 is.

What stood in the tables belongs to no study and had no earlier turns.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TABLES = ("judgements", "study_results", "study_tasks", "studies")  # children first


def upgrade() -> None:
    op.add_column("runs", sa.Column("history", sa.JSON(), nullable=False, server_default="[]"))
    op.create_table(
        "studies",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
    )
    op.create_index("ix_studies_created_at_id", "studies", ["created_at", "id"], unique=False)
    _make_tasks()
    _make_results()
    _make_judgements()


def _make_tasks() -> None:
    op.create_table(
        "study_tasks",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("comparison_ids", sa.JSON(), nullable=False, server_default="[]"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name="fk_study_tasks_studies", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "task", name="pk_study_tasks"),
    )
    unfinished = sa.text("done_at IS NULL")
    op.create_index(
        "ix_study_tasks_open",
        "study_tasks",
        ["study_id", "task"],
        unique=False,
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )


def _make_results() -> None:
    op.create_table(
        "study_results",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.Column("lane", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("execution_order", sa.Integer(), nullable=False),
        sa.Column("run_ids", sa.JSON(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("relative", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["study_id", "task"],
            ["study_tasks.study_id", "study_tasks.task"],
            name="fk_study_results_study_tasks",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("study_id", "task", "lane", name="pk_study_results"),
    )
    columns = ["study_id", "worker", "created_at"]
    op.create_index("ix_study_results_study_id_worker_created_at", "study_results", columns, unique=False)


def _make_judgements() -> None:
    op.create_table(
        "judgements",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.Column("lane", sa.Integer(), nullable=False),
        sa.Column("swapped", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("choice", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id", "task", "lane"],
            ["study_results.study_id", "study_results.task", "study_results.lane"],
            name="fk_judgements_study_results",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("study_id", "task", "lane", "swapped", name="pk_judgements"),
    )


def downgrade() -> None:
    """Studies go; their comparisons stay, as those of a sweep: the word study is not known before."""
    comparisons = sa.table("comparisons", sa.column("source", sa.String))
    op.execute(sa.update(comparisons).where(comparisons.c.source == "study").values(source="sweep"))
    for table in TABLES:
        op.drop_table(table)
    op.drop_column("runs", "history")
