"""A stored study, measured: everything that a report says, as one value. Reads the store and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.report.caveats import warnings
from evaluation.report.grid import grid, groups
from evaluation.report.lanes import measured
from evaluation.report.prompts import prompt_rows
from evaluation.report.texts import records_of
from evaluation.report.values import Measured, Report
from evaluation.report.votes import human_votes, judged
from evaluation.statistics import holm
from evaluation.study.plan import Plan, read_plan
from storage import RunStore, StoredResult

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
    cells = [(group, temperature) for group in groups(plan) for temperature in plan.temperatures]
    rows = [row for group, temperature in cells for row in measured(found, group, temperature, resamples, seed)]
    every = _adjusted(plan, rows)
    environment = _environments(store, stored)
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


def _adjusted(plan: Plan, rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """With Holm's correction over all comparisons of a rule with strict by the main metric of a whole suite."""
    suites, family = {suite.name for suite in plan.suites}, {}
    for place, row in enumerate(rows):
        score = next(iter(row.scores.values()), None)
        if row.group in suites and row.lane != plan.none and score and score.mcnemar:
            family[place] = (score, score.mcnemar)
    adjusted = list(rows)
    corrected = holm([test.p_by_prompt for _, test in family.values()])
    for (place, (score, test)), p in zip(family.items(), corrected, strict=True):
        main = {score.metric: replace(score, mcnemar=replace(test, p_holm=p))}
        adjusted[place] = replace(rows[place], scores={**rows[place].scores, **main})
    return tuple(adjusted)


def _environments(store: RunStore, stored: Sequence[StoredResult]) -> dict[str, tuple[str, ...]]:
    """What the runs say of where they were made: of each worker and lane the first and the last, as far as these are still there."""
    ends: dict[tuple[str, int, bool], str] = {}
    for row in sorted((row for row in stored if row.run_ids), key=lambda row: row.created_at):
        ends.setdefault((row.worker, row.lane, True), row.run_ids[0])
        ends[row.worker, row.lane, False] = row.run_ids[0]
    run_ids = list(dict.fromkeys(ends.values()))
    records = records_of(store, run_ids)
    found: dict[str, dict[str, None]] = {}
    for run_id in run_ids:
        for name, value in records[run_id].config.environment.items() if run_id in records else ():
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}
