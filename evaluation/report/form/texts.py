"""The texts of the worst prompts, from the store. Comparisons may have been removed: then a prompt has none."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.report.form.prompts import OPENED, Texts
from evaluation.report.values import PromptRow, Report
from storage import RunRecord, RunStore, StorageError


def worst_texts(store: RunStore, report: Report) -> dict[tuple[str, str], Texts]:
    """Of the prompts that a report opens, by ``PromptRow.worst``."""
    return texts_of(store, report.prompts[:OPENED])


def texts_of(store: RunStore, rows: Sequence[PromptRow]) -> dict[tuple[str, str], Texts]:
    """Of these prompts, as far as the runs are there."""
    found = {}
    for row in rows:
        try:
            turns = [store.records(runs) for runs in row.turns or (row.worst,)]
        except StorageError:
            continue
        number, (baseline, rule) = _parting(turns)
        found[row.worst] = Texts(
            baseline.text, rule.text, rule.comparison_id, number if len(turns) > 1 else 0, (baseline.id, rule.id)
        )
    return found


def _parting(turns: Sequence[tuple[RunRecord, ...]]) -> tuple[int, tuple[RunRecord, ...]]:
    """The first turn whose texts differ, counted from 1; where none does the first."""
    differing = ((number, runs) for number, runs in enumerate(turns, start=1) if runs[0].text != runs[1].text)
    return next(differing, (1, turns[0]))
