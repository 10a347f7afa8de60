"""From 0.1.0: the shape of the passes of an exact run is `exact` in its environment; runs have
further logits processors, overshoot, loops and what their given tokens have spent; what would have
followed relaxed tokens; tasks are not claimed, a study says until when somebody works on it. The
table of sweeps, which nothing wrote, goes, and the runs of sweeps are those of studies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from storage.schema.columns import SafeJson

revision = "0012"
down_revision = "0007"
_RUNS = sa.table(
    "runs", *map(sa.column, ("id", "pass_rows", "pass_width")), sa.column("environment", SafeJson)
)
_EXACT = sa.select(_RUNS).where(_RUNS.c.pass_rows.is_not(None))
_SAY = (
    sa.update(_RUNS)
    .where(_RUNS.c.id == sa.bindparam("at"))
    .values(environment=sa.bindparam("exact", type_=SafeJson))
)
_JSON = sa.JSON().with_variant(JSONB, "postgresql")
_TOKENS = ("strict_tokens", "relaxed_tokens")
_NUMBERS = (
    *("r", "gap", "entropy", "strict_logprob", "relaxed_logprob"),
    *("strict_score", "relaxed_score"),
)
_OBJECTS = {"comparison_id": "comparisons.id", "study_id": "studies.id"}
_SHARES = sa.table("shares", *map(sa.column, ("token_hash", "owner", "created_at", *_OBJECTS)))
_TRIGGERS = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'comparisons'"


def upgrade() -> None:
    connection = op.get_bind()
    _runs(connection)
    _comparisons(connection)
    _shares(connection)
    _studies()
    _counterfactuals()


def _runs(connection: sa.Connection) -> None:
    for run in connection.execute(_EXACT).all():
        exact = {"exact": f"{run.pass_rows} rows, {run.pass_width} positions"}
        connection.execute(_SAY, {"at": run.id, "exact": run.environment | exact})
    for name in ("pass_rows", "pass_width"):
        op.drop_column("runs", name)
    for column in (
        sa.Column("processors", sa.JSON, nullable=False, server_default="{}"),
        sa.Column("overshoot_max", sa.Double),
        sa.Column("loop_tokens", sa.Integer, nullable=False, server_default="-1"),
        sa.Column("spent", _JSON, nullable=False, server_default="[]"),
    ):
        op.add_column("runs", column)


def _comparisons(connection: sa.Connection) -> None:
    for table in ("comparisons", "facets"):
        op.execute(f"UPDATE {table} SET source = 'study' WHERE source = 'sweep'")
    triggers = (
        connection.scalars(sa.text(_TRIGGERS)).all() if connection.dialect.name == "sqlite" else ()
    )
    op.drop_index("ix_comparisons_sweep_id", "comparisons")
    with op.batch_alter_table("comparisons") as comparisons:  # SQLite: a new table, no triggers
        comparisons.drop_column("sweep_id")
    for trigger in triggers:
        connection.exec_driver_sql(trigger)


def _shares(connection: sa.Connection) -> None:
    links = [dict(row) for row in connection.execute(sa.select(_SHARES)).mappings()]
    op.drop_table("shares")
    op.create_table(
        "shares",
        sa.Column("token_hash", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        *(
            sa.Column(name, sa.String(32), sa.ForeignKey(to, ondelete="CASCADE"))
            for name, to in _OBJECTS.items()
        ),
        *(sa.UniqueConstraint(name, name=f"uq_shares_{name}") for name in _OBJECTS),
        sa.CheckConstraint(
            " + ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END" for name in _OBJECTS) + " = 1"
        ),
    )
    op.create_index("ix_shares_owner_created_at", "shares", ["owner", "created_at"])
    op.bulk_insert(_SHARES, links)


def _studies() -> None:
    op.drop_table("sweeps")
    for name in ("token", "worker", "claimed_until"):
        op.drop_column("study_tasks", name)
    op.drop_index("ix_study_results_study_id_worker_created_at", "study_results")
    op.create_index(
        "ix_study_results_study_id_created_at", "study_results", ["study_id", "created_at"]
    )
    op.add_column("studies", sa.Column("working_until", sa.DateTime(timezone=True)))


def _counterfactuals() -> None:
    op.create_table(
        "counterfactuals",
        sa.Column(
            "run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("meets_after", sa.Integer),
        *(sa.Column(name, sa.Integer, nullable=False) for name in _TOKENS),
        sa.Column("changed", sa.Boolean),
        *(sa.Column(name, sa.Double) for name in _NUMBERS),
    )
