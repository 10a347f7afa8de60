"""The schema of 0.1.0. Later changes need new migrations; this one and its SQL must not change."""

from __future__ import annotations

from alembic import op

from storage.migrations.statements import run_statements

revision = "0007"
down_revision = None


def upgrade() -> None:
    for name in ("baseline", "search"):
        run_statements(op.get_bind(), name)
