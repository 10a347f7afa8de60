"""The schema of 0.1.0. What follows it is a migration of its own; this one and its SQL are frozen."""

from __future__ import annotations

from alembic import op

from storage.migrations.statements import run_statements

revision = "0007"
down_revision = None


def upgrade() -> None:
    for name in ("baseline", "search"):
        run_statements(op.get_bind(), name)
