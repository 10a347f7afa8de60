"""The first schema: comparisons, runs, steps, tokens. Frozen: it must not import the models, which move on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "comparisons",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("chat", sa.Boolean(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("stop", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
    )
    op.create_index("ix_comparisons_created_at_id", "comparisons", ["created_at", "id"], unique=False)
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
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("target_revision", sa.Text(), nullable=True),
        sa.Column("temperature", sa.Double(), nullable=True),
        sa.Column("top_k", sa.BigInteger(), nullable=False),
        sa.Column("top_p", sa.Double(), nullable=True),
        sa.Column("max_new_tokens", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
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
        sa.Column("peak_memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("acceptance_by_position", sa.JSON(), nullable=False),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("prompt_ids", sa.JSON(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["comparison_id"], ["comparisons.id"], name="fk_runs_comparisons", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("comparison_id", "lane", "execution_order", name="uq_runs"),
    )
    op.create_table(
        "steps",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("drafted", sa.Integer(), nullable=False),
        sa.Column("kept", sa.Integer(), nullable=False),
        sa.Column("draft_s", sa.Double(), nullable=True),
        sa.Column("verify_s", sa.Double(), nullable=True),
        sa.Column("elapsed_s", sa.Double(), nullable=True),
        sa.Column("drafted_ids", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_steps_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", name="pk_steps"),
    )
    op.create_table(
        "tokens",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("draft_position", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("piece", sa.Text(), nullable=False),
        sa.Column("char_start", sa.Integer(), nullable=False),
        sa.Column("char_end", sa.Integer(), nullable=False),
        sa.Column("z1", sa.Double(), nullable=True),
        sa.Column("z2", sa.Double(), nullable=True),
        sa.Column("id1", sa.Integer(), nullable=False),
        sa.Column("id2", sa.Integer(), nullable=False),
        sa.Column("r", sa.Double(), nullable=True),
        sa.Column("gap", sa.Double(), nullable=True),
        sa.Column("own", sa.Integer(), nullable=False),
        sa.Column("own_piece", sa.Text(), nullable=False),
        sa.Column("p", sa.Double(), nullable=True),
        sa.Column("q", sa.Double(), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("entropy", sa.Double(), nullable=True),
        sa.Column("forgiveness", sa.Double(), nullable=True),
        sa.Column("u", sa.Double(), nullable=True),
        sa.Column("edge", sa.Double(), nullable=True),
        sa.Column("tv", sa.Double(), nullable=True),
        sa.Column("top", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "step"], ["steps.run_id", "steps.step"], name="fk_tokens_steps", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "step", "ordinal", name="pk_tokens"),
    )


def downgrade() -> None:
    for table in ("tokens", "steps", "runs", "comparisons"):
        op.drop_table(table)
