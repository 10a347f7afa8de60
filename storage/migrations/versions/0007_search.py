"""What lists are searched, filtered and sorted by. Frozen, as 0001 is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.runs.reindex import reindex
from storage.schema.search import CREATE

revision = "0007"
down_revision = "0006"

LISTED = ["created_at", "id", "source", "owner", "deleted_at"]
DELETED = sa.text("deleted_at IS NOT NULL")


def upgrade() -> None:
    number = sa.text("-1")
    op.drop_index("ix_comparisons_deleted_at_created_at_id_source", "comparisons")
    op.drop_index("ix_comparisons_owner_deleted_at_created_at_id_source", "comparisons")
    op.drop_index("ix_runs_comparison_id_status_tokens_per_s_tau_new_tokens", "runs")
    nameless = sa.text("x'ff'" if op.get_bind().dialect.name == "sqlite" else r"'\xff'")
    for column in (
        sa.Column("number", sa.BigInteger()),
        sa.Column("name_key", sa.LargeBinary(), server_default=nameless, nullable=False),
        sa.Column("runs", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("tokens_per_s", sa.Double(), server_default=number, nullable=False),
        sa.Column("tau", sa.Double(), server_default=number, nullable=False),
        sa.Column("new_tokens", sa.Integer(), server_default=number, nullable=False),
    ):
        op.add_column("comparisons", column)
    for columns in (
        ["created_at", "id", "source", "deleted_at"],
        ["owner", "created_at", "id", "source", "deleted_at", "runs"],
        *([key, *LISTED] for key in ("tokens_per_s", "tau", "new_tokens", "name_key")),
    ):
        op.create_index(f"ix_comparisons_by_{columns[0]}", "comparisons", columns)
    op.create_index(
        "ix_comparisons_deleted_at", "comparisons", ["deleted_at"], sqlite_where=DELETED, postgresql_where=DELETED
    )
    op.create_index("ix_comparisons_number", "comparisons", ["number"], unique=True)
    op.create_table(
        "facets",
        sa.Column("comparison_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(
            ["comparison_id"], ["comparisons.id"], name="fk_facets_comparisons", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("comparison_id", "kind", "value", name="pk_facets"),
    )
    op.create_index("ix_facets_by_value", "facets", ["kind", "value", "created_at", "comparison_id", "source", "owner"])
    op.create_index("ix_facets_by_owner", "facets", ["owner", "kind", "value"])
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        op.execute("UPDATE comparisons SET number = rowid")
    for statement in CREATE[connection.dialect.name]:
        op.execute(statement)
    if connection.dialect.name == "sqlite":
        op.execute("INSERT INTO comparison_texts (comparison_texts) VALUES ('rebuild')")
    reindex(connection, connection.scalars(sa.text("SELECT id FROM comparisons")).all())


def downgrade() -> None:
    raise NotImplementedError
