"""The schema of 0.1.0. Frozen: it must not import the models, which move on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from storage.migrations.search import add_search

revision = "0007"
down_revision = None
ONE_OBJECT = (
    " + ".join(f"CASE WHEN {name}_id IS NULL THEN 0 ELSE 1 END" for name in ("comparison", "sweep", "study")) + " = 1"
)
LISTS = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
    )
    op.create_index("ix_studies_created_at_id", "studies", ["created_at", "id"])
    op.create_index("ix_studies_owner_created_at_id", "studies", ["owner", "created_at", "id"])
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("results", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
    )
    op.create_index("ix_sweeps_created_at_id", "sweeps", ["created_at", "id"])
    op.create_index("ix_sweeps_owner_created_at_id", "sweeps", ["owner", "created_at", "id"])
    op.create_table(
        "comparisons",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("chat", sa.Boolean(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("stop", LISTS, nullable=False),
        sa.Column("name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("tags", LISTS, server_default="[]", nullable=False),
        sa.Column("comment", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("source", sa.String(length=16), server_default="compare", nullable=False),
        sa.Column("sweep_id", sa.String(length=32), nullable=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("search", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("owner", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_comparisons_sweeps", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
    )
    op.create_index("ix_comparisons_sweep_id", "comparisons", ["sweep_id"])
    op.create_table(
        "study_tasks",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("token", sa.String(length=32), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("comparison_ids", LISTS, server_default="[]", nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name="fk_study_tasks_studies", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("study_id", "task", name="pk_study_tasks"),
    )
    op.create_index(
        "ix_study_tasks_open",
        "study_tasks",
        ["study_id", "task"],
        unique=False,
        sqlite_where=sa.text("done_at IS NULL"),
        postgresql_where=sa.text("done_at IS NULL"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("comparison_id", sa.String(length=32), nullable=False),
        sa.Column("lane", sa.Integer(), nullable=False),
        sa.Column("execution_order", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("stop_reason", sa.String(length=16), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("rule_parameters", sa.JSON(), nullable=False),
        sa.Column("drafter", sa.Text(), nullable=False),
        sa.Column("drafter_model", sa.Text(), nullable=True),
        sa.Column("drafter_revision", sa.Text(), nullable=True),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("draft_mode", sa.String(length=16), nullable=False),
        sa.Column("tree_tokens", sa.Integer(), nullable=True),
        sa.Column("tree_depth", sa.Integer(), nullable=True),
        sa.Column("tree_top_k", sa.Integer(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("target_revision", sa.Text(), nullable=True),
        sa.Column("temperature", sa.Double(), nullable=True),
        sa.Column("top_k", sa.BigInteger(), nullable=False),
        sa.Column("top_p", sa.Double(), nullable=True),
        sa.Column("max_new_tokens", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("thinking", sa.Boolean(), nullable=True),
        sa.Column("pass_rows", sa.Integer(), nullable=True),
        sa.Column("pass_width", sa.Integer(), nullable=True),
        sa.Column("new_tokens", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("ttft_s", sa.Double(), nullable=True),
        sa.Column("prefill_s", sa.Double(), nullable=True),
        sa.Column("draft_s", sa.Double(), nullable=True),
        sa.Column("verify_s", sa.Double(), nullable=True),
        sa.Column("tokens_per_s", sa.Double(), nullable=True),
        sa.Column("tau", sa.Double(), nullable=True),
        sa.Column("drafted", sa.Integer(), nullable=False),
        sa.Column("accepted", sa.Integer(), nullable=False),
        sa.Column("relaxed", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.Column("recovered", sa.Integer(), nullable=False),
        sa.Column("bonus", sa.Integer(), nullable=False),
        sa.Column("acceptance_rate", sa.Double(), nullable=True),
        sa.Column("relaxed_share", sa.Double(), nullable=True),
        sa.Column("tv_sum", sa.Double(), nullable=True),
        sa.Column("tv_mean", sa.Double(), nullable=True),
        sa.Column("tv_max", sa.Double(), nullable=True),
        sa.Column("kl_sum", sa.Double(), nullable=True),
        sa.Column("kl_mean", sa.Double(), nullable=True),
        sa.Column("kl_max", sa.Double(), nullable=True),
        sa.Column("shifted_share", sa.Double(), nullable=True),
        sa.Column("log_likelihood", sa.Double(), nullable=True),
        sa.Column("perplexity", sa.Double(), nullable=True),
        sa.Column("peak_memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("acceptance_by_position", LISTS, nullable=False),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("prompt_ids", LISTS, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("prefix", LISTS, server_default="[]", nullable=False),
        sa.Column("given", LISTS, server_default="[]", nullable=False),
        sa.Column("history", LISTS, server_default="[]", nullable=False),
        sa.ForeignKeyConstraint(["comparison_id"], ["comparisons.id"], name="fk_runs_comparisons", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("comparison_id", "lane", "execution_order", name="uq_runs"),
    )
    op.create_table(
        "shares",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("comparison_id", sa.String(length=32), nullable=True),
        sa.Column("sweep_id", sa.String(length=32), nullable=True),
        sa.Column("study_id", sa.String(length=32), nullable=True),
        sa.CheckConstraint(ONE_OBJECT),
        sa.ForeignKeyConstraint(
            ["comparison_id"], ["comparisons.id"], name="fk_shares_comparisons", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name="fk_shares_studies", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_shares_sweeps", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_hash", name="pk_shares"),
        sa.UniqueConstraint("comparison_id", name="uq_shares_comparison_id"),
        sa.UniqueConstraint("study_id", name="uq_shares_study_id"),
        sa.UniqueConstraint("sweep_id", name="uq_shares_sweep_id"),
    )
    op.create_index("ix_shares_owner_created_at", "shares", ["owner", "created_at"])
    op.create_table(
        "study_results",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lane", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("execution_order", sa.Integer(), nullable=False),
        sa.Column("run_ids", LISTS, nullable=False),
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
    op.create_index(
        "ix_study_results_study_id_worker_created_at", "study_results", ["study_id", "worker", "created_at"]
    )
    op.create_table(
        "judgements",
        sa.Column("study_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lane", sa.Integer(), autoincrement=False, nullable=False),
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
    op.create_table(
        "run_traces",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_traces_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_traces"),
    )
    op.create_table(
        "votes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("comparison_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("choice", sa.String(length=16), nullable=False),
        sa.Column("left_run_id", sa.String(length=32), nullable=False),
        sa.Column("right_run_id", sa.String(length=32), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["comparison_id"], ["comparisons.id"], name="fk_votes_comparisons", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["left_run_id"], ["runs.id"], name="fk_votes_left_run", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["right_run_id"], ["runs.id"], name="fk_votes_right_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_votes"),
        sa.UniqueConstraint("comparison_id", name="uq_votes"),
    )
    add_search(op.get_bind())
