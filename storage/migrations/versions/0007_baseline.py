"""The schema of 0.1.0, which a new database is created with and an earlier one is carried over to. Later changes need new migrations."""

from __future__ import annotations

revision = "0007"
down_revision = None


def upgrade() -> None:
    pass
