"""What recorded changes for backups goes: triggers of every table, and the tables that they
filled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
_TRIGGERS = (
    "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'backup~_%' ESCAPE '~'"
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":  # which alone had them
        return
    for name in connection.scalars(sa.text(_TRIGGERS)).all():
        op.execute(f"DROP TRIGGER [{name}]")
    for name in ("backup_changes", "backup_place"):
        op.execute(f"DROP TABLE IF EXISTS {name}")
