"""Owners of comparisons, sweeps and studies; shares. Frozen, as 0001 is.

What stood in the tables belongs to everybody, which is the empty owner.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

OWNED = {
    "comparisons": ["owner", "deleted_at", "created_at", "id", "source"],
    "sweeps": ["owner", "created_at", "id"],
    "studies": ["owner", "created_at", "id"],
}  # table → what its lists are made by
OBJECTS = (("comparison_id", "comparisons"), ("sweep_id", "sweeps"), ("study_id", "studies"))
ONE_OBJECT = " + ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END" for name, _ in OBJECTS) + " = 1"
SWEEP = "ix_comparisons_sweep_id"


def upgrade() -> None:
    for table, columns in OWNED.items():
        op.add_column(table, sa.Column("owner", sa.String(length=64), nullable=False, server_default=""))
        op.create_index(_index(table), table, columns, unique=False)
    op.create_index(SWEEP, "comparisons", ["sweep_id"], unique=False)
    op.create_table(
        "shares",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.String(length=32), nullable=True) for name, _ in OBJECTS),
        sa.CheckConstraint(ONE_OBJECT, name="ck_shares_one_object"),
        *(
            sa.ForeignKeyConstraint([name], [f"{table}.id"], name=f"fk_shares_{table}", ondelete="CASCADE")
            for name, table in OBJECTS
        ),
        *(sa.UniqueConstraint(name, name=f"uq_shares_{name}") for name, _ in OBJECTS),
        sa.PrimaryKeyConstraint("token_hash", name="pk_shares"),
    )
    op.create_index("ix_shares_owner_created_at", "shares", ["owner", "created_at"], unique=False)


def downgrade() -> None:
    """Links end; from then on everybody sees what was somebody's, since the owner is not known before."""
    op.drop_table("shares")
    op.drop_index(SWEEP, "comparisons")
    for table in reversed(OWNED):
        op.drop_index(_index(table), table)
        op.drop_column(table, "owner")


def _index(table: str) -> str:
    return f"ix_{table}_{'_'.join(OWNED[table])}"
