"""Runs have the further logits processors of their sampling."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("runs", sa.Column("processors", sa.JSON, nullable=False, server_default="{}"))
