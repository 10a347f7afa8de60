"""Names, tags and comments; where a comparison comes from; deletion that can be undone; given tokens; sweeps; votes. Frozen, as 0001 is.

What stood in the tables came from Compare, has no name and begins with its first new token. ``search`` is made of the prompts,
a bounded number at a time. Columns are added with defaults: SQLite would have to copy a table to do without, and to drop the
old copy would delete what refers to it.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

PROMPTS_A_READ = 100
NAMES: tuple[tuple[str, sa.types.TypeEngine[Any], str], ...] = (
    ("name", sa.Text(), ""),
    ("tags", sa.JSON(), "[]"),
    ("comment", sa.Text(), ""),
    ("source", sa.String(length=16), "compare"),
    ("search", sa.Text(), ""),
)
GIVEN = ("prefix", "given")
OLD_PAGES, PAGES = "ix_comparisons_created_at_id", "ix_comparisons_deleted_at_created_at_id_source"
BEST = "ix_runs_comparison_id_status_tokens_per_s_tau_new_tokens"

_comparisons = sa.table(
    "comparisons",
    sa.column("id", sa.String),
    sa.column("prompt", sa.Text),
    sa.column("search", sa.Text),
    sa.column("deleted_at", sa.DateTime(timezone=True)),
)


def upgrade() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("results", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
    )
    op.create_index("ix_sweeps_created_at_id", "sweeps", ["created_at", "id"], unique=False)
    for name, kind, default in NAMES:
        op.add_column("comparisons", sa.Column(name, kind, nullable=False, server_default=default))
    op.add_column("comparisons", sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True))
    op.execute(  # op.add_column has no form that SQLite takes with a reference
        "ALTER TABLE comparisons ADD COLUMN sweep_id VARCHAR(32) "
        "CONSTRAINT fk_comparisons_sweeps REFERENCES sweeps (id) ON DELETE SET NULL"
    )
    for name in GIVEN:
        op.add_column("runs", sa.Column(name, sa.JSON(), nullable=False, server_default="[]"))
    op.create_table(
        "votes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("comparison_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("choice", sa.String(length=16), nullable=False),
        sa.Column("left_run_id", sa.String(length=32), nullable=False),
        sa.Column("right_run_id", sa.String(length=32), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["comparison_id"], ["comparisons.id"], name="fk_votes_comparisons", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["left_run_id"], ["runs.id"], name="fk_votes_left_run", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["right_run_id"], ["runs.id"], name="fk_votes_right_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_votes"),
        sa.UniqueConstraint("comparison_id", name="uq_votes"),
    )
    _fill_search()
    op.drop_index(OLD_PAGES, "comparisons")
    op.create_index(PAGES, "comparisons", ["deleted_at", "created_at", "id", "source"], unique=False)
    op.create_index(BEST, "runs", ["comparison_id", "status", "tokens_per_s", "tau", "new_tokens"], unique=False)


def downgrade() -> None:
    """What was deleted goes for good; of given tokens the text stays, as if the run had written it."""
    op.execute(sa.delete(_comparisons).where(_comparisons.c.deleted_at.is_not(None)))
    op.drop_table("votes")
    op.drop_index(BEST, "runs")
    op.drop_index(PAGES, "comparisons")
    op.create_index(OLD_PAGES, "comparisons", ["created_at", "id"], unique=False)
    for name in GIVEN:
        op.drop_column("runs", name)
    for name in ("sweep_id", "deleted_at", *(name for name, _, _ in NAMES)):
        op.drop_column("comparisons", name)
    op.drop_table("sweeps")


def _fill_search() -> None:
    connection = op.get_bind()
    statement = sa.select(_comparisons.c.id, _comparisons.c.prompt).order_by(_comparisons.c.id).limit(PROMPTS_A_READ)
    change = sa.update(_comparisons).where(_comparisons.c.id == sa.bindparam("at"))
    change = change.values(search=sa.bindparam("value"))
    batch = connection.execute(statement).all()
    while batch:
        connection.execute(change, [{"at": row.id, "value": _haystack(row.prompt)} for row in batch])
        batch = connection.execute(statement.where(_comparisons.c.id > batch[-1].id)).all()


def _haystack(prompt: str) -> str:
    """As storage.search made it when this was written, of a prompt as it is spelled in the table and no other text."""
    text = re.sub("\u241b([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), prompt).casefold()
    letters = str.maketrans("0123456789abcdef", "ABCDEFGHIJKLMNOP")
    return re.sub("[\x00\ud800-\udfff]", lambda match: "Y" + f"{ord(match[0]):04x}".translate(letters), text) + "ZZ"
