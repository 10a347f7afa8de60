"""Thinking; the shape of exact passes; plain decoding as a rule of its own. Frozen, as 0001 is.

What stood in the tables left thinking to the template and was not exact. Runs without drafts had the rule strict; so had the lanes of
studies, in their plans.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

COLUMNS = (("thinking", sa.Boolean()), ("pass_rows", sa.Integer()), ("pass_width", sa.Integer()))
PLAIN, STRICT = "none", "strict"

_runs = sa.table("runs", sa.column("rule", sa.Text), sa.column("drafter", sa.Text))


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("runs", sa.Column(name, kind, nullable=True))
    _rename(STRICT, PLAIN)


def downgrade() -> None:
    """Plans forget what only this version knows, or the one before could not read them."""
    for name, _ in COLUMNS:
        op.drop_column("runs", name)
    _rename(PLAIN, STRICT)
    _rewrite("sweeps", lambda plan: plan.pop("thinking", None))
    _rewrite("studies", lambda plan: plan.pop("thinking", None))


def _rename(before: str, after: str) -> None:
    """The rule of everything that drafts nothing."""

    def rename(plan: Any) -> None:
        for lane in plan.get("lanes", ()):
            if lane["drafter"]["kind"] == PLAIN and lane["rule"]["name"] == before:
                lane["rule"]["name"] = after

    op.execute(sa.update(_runs).where(_runs.c.drafter == PLAIN, _runs.c.rule == before).values(rule=after))
    _rewrite("studies", rename)


def _rewrite(table: str, change: Any) -> None:
    """Every plan of the table, one at a time: a study's holds all its prompts."""
    connection = op.get_bind()
    plans = sa.table(table, sa.column("id", sa.String), sa.column("plan", sa.JSON))
    for id_ in connection.execute(sa.select(plans.c.id)).scalars().all():
        plan = connection.execute(sa.select(plans.c.plan).where(plans.c.id == id_)).scalar_one()
        change(plan)
        connection.execute(sa.update(plans).where(plans.c.id == id_).values(plan=plan))
