"""What would have followed the relaxed tokens of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import delete, insert, select

from mars_core.counterfactual import Counterfactual
from storage.connection import Connected
from storage.schema import ComparisonRow, CounterfactualRow, RunRow
from storage.schema.trace import COUNTERFACTUAL
from storage.scope import batches, check_id, unknown


class Counterfactuals(Connected):
    """Of runs in the scope, also of deleted comparisons, which studies use."""

    def save_counterfactuals(self, run_id: str, tokens: Sequence[Counterfactual]) -> None:
        """Save those of some tokens of a run, instead of earlier ones of these tokens. Raises
        StorageError for an unknown run."""
        check_id(run_id, "run")
        with self._write("The counterfactuals were not saved") as connection:
            run = select(RunRow.id).join(ComparisonRow).where(RunRow.id == run_id)
            if connection.execute(run.where(*self.scope.of(ComparisonRow))).first() is None:
                raise unknown(run_id, "run")
            positions = [token.position for token in tokens]
            earlier = delete(CounterfactualRow).where(CounterfactualRow.run_id == run_id)
            connection.execute(earlier.where(CounterfactualRow.position.in_(positions)))
            rows = [asdict(token) | {"run_id": run_id} for token in tokens]
            connection.execute(insert(CounterfactualRow), rows)

    def counterfactuals(self, run_ids: Sequence[str]) -> dict[str, tuple[Counterfactual, ...]]:
        """Id of a run → its tokens by position; without runs that have none."""
        by_run = defaultdict[str, list[Counterfactual]](list)
        tokens = select(CounterfactualRow.__table__).join(RunRow).join(ComparisonRow)
        tokens = tokens.where(*self.scope.of(ComparisonRow)).order_by(CounterfactualRow.position)
        with self.read() as connection:
            for some in batches(run_ids):
                of_runs = CounterfactualRow.run_id.in_(some)
                for row in connection.execute(tokens.where(of_runs)).mappings():
                    by_run[row["run_id"]].append(COUNTERFACTUAL.read(row))
        return {run_id: tuple(each) for run_id, each in by_run.items()}
