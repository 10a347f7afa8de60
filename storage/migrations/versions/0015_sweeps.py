"""Plans of 0.1.0 said which parameter a sweep varies, and numbered the tasks of a sweep with its
temperatures innermost. Their lanes say it, and tasks are numbered as in other studies."""

from __future__ import annotations

import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
_TABLES = ("study_tasks", "study_results", "judgements")  # parents first
_PLAN = sa.text("SELECT CAST(plan AS TEXT) FROM studies WHERE id = :id")
_SAY = "UPDATE studies SET plan = CAST(:plan AS {}) WHERE id = :id"


def upgrade() -> None:
    connection = op.get_bind()
    kind = "TEXT" if connection.dialect.name == "sqlite" else "JSON"
    for study in connection.scalars(sa.text("SELECT id FROM studies")).all():
        try:
            plan = json.loads(connection.scalar(_PLAN, {"id": study}))
            if "varied" not in plan or not re.fullmatch("[0-9a-f]{32}", study):
                continue
            if plan.pop("varied") is not None:
                _renumber(study, plan)
        except (KeyError, TypeError, ValueError):  # damaged: it stays as it is
            continue
        new = json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
        connection.execute(sa.text(_SAY.format(kind)), {"plan": new, "id": study})


def _renumber(study: str, plan: dict[str, Any]) -> None:
    """Renumber from repeat, item, temperature to repeat, temperature, item."""
    items = sum(len(suite["items"]) for suite in plan["suites"])
    at = len(plan["temperatures"])
    task = f"((task / {at * items}) * {at} + task % {at}) * {items} + (task / {at}) % {items}"
    for table in _TABLES:
        op.execute(
            f"CREATE TEMPORARY TABLE moved_{table} AS "
            f"SELECT * FROM {table} WHERE study_id = '{study}'"
        )
        op.execute(f"UPDATE moved_{table} SET task = {task}")
    for table in reversed(_TABLES):
        op.execute(f"DELETE FROM {table} WHERE study_id = '{study}'")
    for table in _TABLES:
        op.execute(f"INSERT INTO {table} SELECT * FROM moved_{table}")
        op.execute(f"DROP TABLE moved_{table}")
