"""A stored study, measured: everything that a report says, as one value. Reads the store and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.report.caveats import warnings
from evaluation.report.cell import cell
from evaluation.report.grid import grid
from evaluation.report.groups import groups
from evaluation.report.lanes import measured
from evaluation.report.prompts import prompt_rows
from evaluation.report.values import Measured, Report
from evaluation.report.votes import human_votes, judged
from evaluation.statistics import holm
from evaluation.study.plan import Plan, read_plan
from storage import RunRecord, RunStore, StorageError, StoredResult

RESAMPLES = 2000


def measure(store: RunStore, study_id: str, *, resamples: int = RESAMPLES, seed: int = 0) -> Report:
    """The numbers of a study's done tasks. The same study, ``resamples`` and ``seed`` give the same report.

    Raises StorageError, and ValueError for a study that this version cannot read or ``resamples`` that are not 100 to 100,000.
    """
    if not 100 <= resamples <= 100_000:
        raise ValueError(f"resamples is {resamples}; it must be 100 to 100,000.")
    study, stored = store.study(study_id), store.results(study_id)
    plan = read_plan(study.plan)
    found = grid(plan, stored)
    rows: list[Measured] = []
    for group in groups(plan):
        for temperature in plan.temperatures:
            rows += measured(cell(found, group, temperature), resamples, seed)
    every = adjusted(plan, rows)
    environment = environments(store, stored)
    return Report(
        id=study.id,
        plan=plan,
        created_at=study.created_at,
        tasks_done=study.done,
        environment={name: "; ".join(values) for name, values in environment.items()},
        measured=every,
        prompts=prompt_rows(found),
        warnings=warnings(found, study.done, every, environment),
        votes=human_votes(store, plan),
        judged=judged(store.judgements(study_id), plan),
    )


def adjusted(plan: Plan, rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """With Holm's correction over all comparisons of a rule with strict by the main metric of a whole suite."""
    suites = {suite.name for suite in plan.suites}
    family = [
        place for place, row in enumerate(rows) if row.group in suites and row.lane != plan.none and _p(row) is not None
    ]
    corrected = dict(zip(family, holm([_p(rows[place]) or 0.0 for place in family]), strict=True))
    return tuple(_with_holm(row, corrected[place]) if place in corrected else row for place, row in enumerate(rows))


def environments(store: RunStore, stored: Sequence[StoredResult]) -> dict[str, tuple[str, ...]]:
    """What the runs say of where they were made: of each worker and lane the first and the last, not all of them.

    Runs that are no longer there say nothing.
    """
    ends: dict[tuple[str, int, bool], StoredResult] = {}
    for row in sorted((row for row in stored if row.run_ids), key=lambda row: row.created_at):
        ends.setdefault((row.worker, row.lane, True), row)
        ends[row.worker, row.lane, False] = row
    found: dict[str, dict[str, None]] = {}
    for record in _records(store, list(dict.fromkeys(row.run_ids[0] for row in ends.values()))):
        for name, value in record.config.environment.items():
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _records(store: RunStore, run_ids: Sequence[str]) -> list[RunRecord]:
    try:
        return list(store.records(run_ids))
    except StorageError:  # some are gone
        found: list[RunRecord] = []
        for run_id in run_ids:
            try:
                found += store.records([run_id])
            except StorageError:
                continue
        return found


def _p(row: Measured) -> float | None:
    score = next(iter(row.scores.values()), None)
    return score.mcnemar.p_by_prompt if score and score.mcnemar else None


def _with_holm(row: Measured, p: float) -> Measured:
    name, score = next(iter(row.scores.items()))
    assert score.mcnemar is not None
    return replace(row, scores={**row.scores, name: replace(score, mcnemar=replace(score.mcnemar, p_holm=p))})
