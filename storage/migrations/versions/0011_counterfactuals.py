"""What would have followed the relaxed tokens of runs; the overshoot and the loops of a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
_TOKENS = ("strict_tokens", "relaxed_tokens")
_NUMBERS = (
    *("r", "gap", "entropy", "strict_logprob", "relaxed_logprob"),
    *("strict_score", "relaxed_score"),
)


def upgrade() -> None:
    op.add_column("runs", sa.Column("overshoot_max", sa.Double))
    op.add_column("runs", sa.Column("loop_tokens", sa.Integer, nullable=False, server_default="-1"))
    op.create_table(
        "counterfactuals",
        sa.Column(
            "run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("meets_after", sa.Integer),
        *(sa.Column(name, sa.Integer, nullable=False) for name in _TOKENS),
        sa.Column("changed", sa.Boolean),
        *(sa.Column(name, sa.Double) for name in _NUMBERS),
    )
