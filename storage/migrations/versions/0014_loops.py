"""Loops of any span, and the numbers before them: those of earlier runs are not known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute("UPDATE runs SET loop_tokens = -1")
    op.add_column("runs", sa.Column("loop_start", sa.Integer, nullable=False, server_default="-1"))
    for name in ("tau_before_loop", "tokens_per_s_before_loop"):
        op.add_column("runs", sa.Column(name, sa.Double))
