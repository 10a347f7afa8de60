"""The texts of a study's runs, as far as they are still in the store."""

from __future__ import annotations

from collections.abc import Sequence

from mars_core.types import StopReason
from storage import RunRecord, RunStore, StorageError

RUNS_A_READ = 500


def records_of(store: RunStore, run_ids: Sequence[str]) -> dict[str, RunRecord]:
    """Run id → record, without runs whose comparison was deleted since. Raises StorageError where the database fails."""
    found: dict[str, RunRecord] = {}
    for start in range(0, len(run_ids), RUNS_A_READ):
        found |= {record.id: record for record in _there(store, run_ids[start : start + RUNS_A_READ])}
    return found


def text_of(run: RunRecord) -> str:
    """The answer: the text without the stop string that ended it."""
    ends = [run.text.find(stop) for stop in run.config.prompt.stop] if run.stop_reason is StopReason.STOP_STRING else []
    return run.text[: min((end for end in ends if end >= 0), default=None)]


def _there(store: RunStore, run_ids: Sequence[str]) -> tuple[RunRecord, ...]:
    """One unknown id makes the store refuse all: those who ask for many are halved until it is alone."""
    try:
        return store.records(run_ids)
    except StorageError:
        if len(run_ids) == 1:
            return ()
    middle = len(run_ids) // 2
    return _there(store, run_ids[:middle]) + _there(store, run_ids[middle:])
