"""What the given tokens of a continued run have spent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    kind = sa.JSON().with_variant(JSONB, "postgresql")
    op.add_column("runs", sa.Column("spent", kind, nullable=False, server_default="[]"))
