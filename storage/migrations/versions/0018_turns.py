"""Runs of later turns belong to the comparison of the first one: each says which turn it is, and its
prompt where that is another one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
_ARRAYS = {"sqlite": "json_valid(history)", "postgresql": "json_typeof(history) = 'array'"}


def upgrade() -> None:
    op.add_column("runs", sa.Column("turn", sa.Integer, nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("question", sa.Text))
    readable = _ARRAYS[op.get_bind().dialect.name]  # a damaged one stays as it is
    op.execute(f"UPDATE runs SET turn = json_array_length(history) WHERE {readable}")
