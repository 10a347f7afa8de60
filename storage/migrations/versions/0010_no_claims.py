"""Tasks are not claimed any more: workers are processes of one program. A study says until when
somebody works on it, and its pace is that of all of them together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    for name in ("token", "worker", "claimed_until"):
        op.drop_column("study_tasks", name)
    op.drop_index("ix_study_results_study_id_worker_created_at", "study_results")
    op.create_index(
        "ix_study_results_study_id_created_at", "study_results", ["study_id", "created_at"]
    )
    op.add_column("studies", sa.Column("working_until", sa.DateTime(timezone=True)))
