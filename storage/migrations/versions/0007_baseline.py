"""The schema of 0.1.0. Later changes need new migrations."""

from __future__ import annotations

revision = "0007"
down_revision = None


def upgrade() -> None:
    pass
