"""Runs may have tools and a form of the answer beside their prompt; those of earlier versions have
none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    structure = sa.Column("structure", sa.Text, nullable=False, server_default="")
    op.add_column("runs", structure)
