"""A stored study, measured: everything that a report says, as one value. Reads the store and writes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from evaluation.report.caveats import warnings
from evaluation.report.grid import Array, Grid, grid, groups, items_of
from evaluation.report.lanes import measured
from evaluation.report.texts import records_of
from evaluation.report.values import Measured, PromptRow, Report
from evaluation.report.votes import human_votes, judged
from evaluation.statistics import holm
from evaluation.study.plan import Plan, read_plan
from storage import RunStore, StoredResult

RESAMPLES = 2000
BEGINNING = 160  # characters of a prompt


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
        prompts=_prompt_rows(found),
        warnings=warnings(found, study.done, every, environment),
        votes=human_votes(store, plan),
        judged=judged(store.judgements(study_id), plan),
    )


def _adjusted(plan: Plan, rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """With Holm's correction over all comparisons of a rule with strict by the main metric of a whole suite."""
    suites, family = {suite.name for suite in plan.suites}, {}
    for place, row in enumerate(rows):
        score = row.main_score
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


def _prompt_rows(grid: Grid) -> tuple[PromptRow, ...]:
    """Every item at every temperature under every lane that has a baseline, of runs completed in both.

    First what lost most score; then by the share of runs that differ, where the texts part, summed TV, and the plan.
    """
    rows = [
        row for lane in range(len(grid.plan.lanes)) if grid.baseline(lane) != lane for row in _prompts_of(grid, lane)
    ]
    return tuple(sorted(rows, key=_badness))


def _badness(row: PromptRow) -> tuple[float, float, float, float]:
    divergence = math.inf if row.divergence is None else row.divergence
    return -row.lost, -row.differ / row.runs, divergence, 0.0 if math.isnan(row.tv_sum) else -row.tv_sum


def _prompts_of(grid: Grid, lane: int) -> Iterator[PromptRow]:
    """In the order of items and temperatures."""
    baseline, items = grid.baseline(lane), items_of(grid.plan)
    rows = np.flatnonzero(grid.completed[:, lane] & grid.completed[:, baseline])
    change = np.nan_to_num(grid.main_scores[rows, lane] - grid.main_scores[rows, baseline], nan=0.0)
    first = np.nan_to_num(grid.numbers["divergence"][rows, lane], nan=np.inf)
    keys = np.stack([grid.item[rows].astype(np.float64), grid.temperature[rows]], axis=1)
    settings, setting = np.unique(keys, axis=0, return_inverse=True)
    setting = setting.reshape(-1)
    order = np.lexsort((first, change, setting))
    worst = rows[order[np.unique(setting[order], return_index=True)[1]]]  # the run that lost most, else parted earliest
    earliest = np.full(len(settings), np.inf)
    np.minimum.at(earliest, setting, first)

    def total(values: Array) -> Array:
        return np.bincount(setting, values, minlength=len(settings)).astype(np.float64)

    runs, differ = total(np.ones(len(rows))), total(np.nan_to_num(1 - grid.numbers["same"][rows, lane]))
    gained, lost = total(change.clip(0)), total((-change).clip(0))
    tv = total(grid.numbers["tv_sum"][rows, lane]) / runs
    with np.errstate(divide="ignore", invalid="ignore"):
        length_ratio = total(grid.numbers["new_tokens"][rows, lane]) / total(grid.numbers["new_tokens"][rows, baseline])
    for number, (item, temperature) in enumerate(settings):
        suite, entry = items[int(item)]
        pairs = tuple(zip(grid.run_ids[worst[number], baseline], grid.run_ids[worst[number], lane], strict=False))
        yield PromptRow(
            suite=suite,
            category=entry.category,
            item=entry.id,
            prompt=entry.turns[0][:BEGINNING],
            temperature=float(temperature),
            lane=lane,
            runs=int(runs[number]),
            differ=int(differ[number]),
            gained=float(gained[number]),
            lost=float(lost[number]),
            divergence=int(earliest[number]) if np.isfinite(earliest[number]) else None,
            tv_sum=float(tv[number]),
            length_ratio=float(length_ratio[number]),
            worst=pairs[0] if pairs else ("", ""),
            turns=pairs,
        )
