"""The texts of a study's runs that are still stored."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.report.document.prompts import OPENED, Texts
from evaluation.report.values import PromptRow, Report
from storage import RunRecord, RunStore, StorageError

RUNS_A_READ = 500


def records_of(store: RunStore, run_ids: Sequence[str]) -> dict[str, RunRecord]:
    """Run id → record, without runs whose comparison has been deleted. Raises StorageError where the database fails."""
    found: dict[str, RunRecord] = {}
    for start in range(0, len(run_ids), RUNS_A_READ):
        found |= {record.id: record for record in _existing(store, run_ids[start : start + RUNS_A_READ])}
    return found


def _existing(store: RunStore, run_ids: Sequence[str]) -> tuple[RunRecord, ...]:
    """The records that exist. The store raises for any unknown id, so a failed request is split in halves."""
    try:
        return store.records(run_ids)
    except StorageError:
        if len(run_ids) == 1:
            return ()
    middle = len(run_ids) // 2
    return _existing(store, run_ids[:middle]) + _existing(store, run_ids[middle:])


def worst_texts(store: RunStore, report: Report) -> dict[tuple[str, str], Texts]:
    """The texts of the prompts shown in full in a report, by ``PromptRow.worst``."""
    return texts_of(store, report.prompts[:OPENED])


def texts_of(store: RunStore, rows: Sequence[PromptRow]) -> dict[tuple[str, str], Texts]:
    """The texts of these prompts, if all their runs are stored: of the first turn that differs, else the first turn."""
    records = records_of(
        store, list(dict.fromkeys(run for row in rows for turn in row.turns or (row.worst,) for run in turn))
    )
    found = {}
    for row in rows:
        turns = row.turns or (row.worst,)
        if any(run not in records for turn in turns for run in turn):
            continue
        pairs = [(records[baseline], records[rule]) for baseline, rule in turns]
        parted = (number for number, (baseline, rule) in enumerate(pairs) if baseline.text != rule.text)
        number = next(parted, 0)
        baseline, rule = pairs[number]
        turn = number + 1 if len(turns) > 1 else 0
        found[row.worst] = Texts(baseline.text, rule.text, rule.comparison_id, turn, (baseline.id, rule.id))
    return found
