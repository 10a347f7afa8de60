"""What every step of many runs kept, without their tokens: enough for the lengths that were accepted. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from storage.schema import Comparison, Run, Step
from storage.store import RunStore

RUNS_A_READ = 500


def kept_by_step(store: RunStore, run_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Run id → drafted tokens that each of its steps kept, in order. A run that is gone, or has no step, is left out."""
    found: dict[str, list[int]] = {}
    for start in range(0, len(run_ids), RUNS_A_READ):
        wanted = Step.run_id.in_(run_ids[start : start + RUNS_A_READ])
        statement = select(Step.run_id, Step.kept).join(Run, Run.id == Step.run_id)
        statement = statement.join(Comparison, Comparison.id == Run.comparison_id)
        statement = statement.where(wanted, *store.scope.comparisons()).order_by(Step.run_id, Step.step)
        with store.read() as connection:
            for run_id, kept in connection.execute(statement):
                found.setdefault(run_id, []).append(kept)
    return {run_id: tuple(kept) for run_id, kept in found.items()}
