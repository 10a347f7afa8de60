"""Measures a stored study: all values of a report."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from evaluation.advise.certificate import certify, differences
from evaluation.plan.lane import BASELINE
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan, read_plan
from evaluation.recovery import corrected
from evaluation.report.measured import Measured
from evaluation.report.measuring.caveats import other_texts, warnings
from evaluation.report.measuring.curves import curve_rows, sharpened_rows
from evaluation.report.measuring.grid import Grid, grid, items_of, parts
from evaluation.report.measuring.lanes import measured
from evaluation.report.measuring.placebos import placebo_rows
from evaluation.report.measuring.rates import length_rows, load_rows
from evaluation.report.measuring.tokens import followed_rows, intervention_rows
from evaluation.report.rows import PromptRow, VoteRow
from evaluation.report.texts import records_of
from evaluation.report.values import ALL, Report
from evaluation.statistics import count_interval, holm, over
from mars_core.types import ModelRef
from storage import Choice, Preferred, RunRecord, RunStore, StoredJudgement, StoredResult

BEGINNING = 160  # characters of a prompt


def measure(store: RunStore, study_id: str) -> Report:
    """Measure the numbers of a study so far. The same study gives the same report.

    Raises StorageError, and ValueError for a study that this version cannot read.
    """
    study, stored = store.study(study_id), store.results(study_id)
    plan = read_plan(study.plan)
    anew = [one for one in stored if plan.writes_anew(one.task)]
    results, batches = grid(plan, anew), grid(plan, stored)
    every_part = list(parts(results))
    suites = [part for part in every_part if part.group in plan.suite_names | {ALL}]
    every = _adjusted(results.plan, [row for part in every_part for row in measured(part)])
    environment = _environments(store, stored)
    return Report(
        id=study.id,
        plan=results.plan,
        created_at=study.created_at,
        tasks_done=study.done,
        results=len(stored),
        environment={name: "; ".join(values) for name, values in environment.items()},
        measured=every,
        prompts=_prompt_rows(results),
        warnings=(*warnings(results, every, environment), *other_texts(batches)),
        votes=_human_votes(store, plan),
        loads=tuple(load_rows(batches)),
        judged=_judged(store.judgements(study_id), plan),
        followed=followed_rows(store, results),
        interventions=intervention_rows(store, results),
        placebos=tuple(placebo_rows(every_part, every)),
        sharpened=tuple(row for part in suites for row in sharpened_rows(part)),
        curves=tuple(row for part in suites for row in curve_rows(part)),
        lengths=tuple(length_rows(results)),
        certificate=certify(plan, stored) if plan.advice else None,
        differences=differences(plan, stored) if plan.matching else (),
    )


def _adjusted(plan: Plan, rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """Return the rows with Holm's correction over all comparisons of a rule with strict, and over
    those with random relaxation, by the main metric of a full suite. A rule that relaxed nothing is
    not compared with it."""
    adjusted = list(rows)
    family = [
        (index, row.main_score)
        for index, row in enumerate(rows)
        if row.group in plan.suite_names and row.lane != plan.none and row.main_score
    ]
    exact = iter(holm([score.mcnemar.p_by_prompt for _, score in family if score.mcnemar]))
    random = iter(corrected([test for _, score in family for test in score.placebos.values()]))
    for index, score in family:
        main = replace(
            score,
            mcnemar=score.mcnemar and replace(score.mcnemar, p_holm=next(exact)),
            placebos={kind: next(random) for kind in score.placebos},
        )
        scores = {**rows[index].scores, score.metric: main}
        adjusted[index] = replace(rows[index], scores=scores)
    return tuple(adjusted)


def _environments(store: RunStore, stored: Sequence[StoredResult]) -> dict[str, tuple[str, ...]]:
    """Return the environments of the runs: of the last one of each worker, a process, and lane."""
    ran = sorted((row for row in stored if row.run_ids), key=attrgetter("created_at"))
    last = {(row.worker, row.lane): row.run_ids[0] for row in ran}
    by_name = defaultdict[str, dict[str, None]](dict)
    for record in records_of(store, [*dict.fromkeys(last.values())]).values():
        for name, value in record.config.environment.items():
            by_name[name][value] = None
    return {name: tuple(values) for name, values in by_name.items()}


def _prompt_rows(grid: Grid) -> tuple[PromptRow, ...]:
    """Return every item at every temperature under every lane that has a baseline and is no
    placebo, of runs completed in both.

    Sorted by lost score, then share of runs that differ, position of the first difference, summed
    TV, and order in the plan.
    """

    def badness(row: PromptRow) -> tuple[float, float, float, float]:
        divergence = math.inf if row.divergence is None else row.divergence
        return (
            -row.lost,
            -row.differ / row.runs,
            divergence,
            0.0 if math.isnan(row.tv_sum) else -row.tv_sum,
        )

    lanes = (
        number
        for number, lane in enumerate(grid.plan.lanes)
        if grid.baseline(number) != number and not lane.is_control
    )
    return tuple(sorted((row for lane in lanes for row in _prompts_of(grid, lane)), key=badness))


def _prompts_of(grid: Grid, lane: int) -> Iterator[PromptRow]:
    """Yield rows in the order of items and temperatures."""
    baseline, items, numbers = grid.baseline(lane), items_of(grid.plan), grid.numbers
    both = grid.completed[:, lane] & grid.completed[:, baseline]
    by_prompt = defaultdict[tuple[int, float], list[int]](list)
    for row in np.flatnonzero(both & np.isfinite(numbers["same"][:, lane])).tolist():
        by_prompt[int(grid.item[row]), float(grid.temperature[row])].append(row)
    for (item, temperature), rows in sorted(by_prompt.items()):
        rule, strict = (grid.main_scores[rows, each] for each in (lane, baseline))
        change = np.nan_to_num(rule - strict, nan=0.0)
        first = np.nan_to_num(numbers["divergence"][rows, lane], nan=np.inf)
        worst = rows[np.lexsort((first, change))[0]]  # largest loss, else earliest difference
        tokens, before = (
            sum(numbers["new_tokens"][rows, each].tolist()) for each in (lane, baseline)
        )
        runs = (grid.run_ids[worst, each] for each in (baseline, lane))
        pairs, (suite, entry) = tuple(zip(*runs, strict=False)), items[item]
        yield PromptRow(
            suite,
            entry.category,
            entry.id,
            entry.turns[0][:BEGINNING],
            temperature,
            lane,
            len(rows),
            int((numbers["same"][rows, lane] == 0).sum()),
            gained=sum(change.clip(0).tolist()),
            lost=sum((-change).clip(0).tolist()),
            tv_sum=sum(numbers["tv_sum"][rows, lane].tolist()) / len(rows),
            length_ratio=over(tokens, before),
            divergence=int(first.min()) if np.isfinite(first.min()) else None,
            turns=pairs,
        )


def _human_votes(store: RunStore, plan: Plan) -> tuple[VoteRow, ...]:
    """Count all votes of the page between strict and a rule of the plan with its models, for any
    prompt; rules as in the plan."""
    rules = dict.fromkeys(lane.name for lane in plan.lanes if lane.name != BASELINE)
    pairs = [(vote, {vote.left_rule, vote.right_rule}) for vote in store.votes()]
    votes = [vote for vote, pair in pairs if BASELINE in pair and pair & rules.keys()]
    runs = [run for vote in votes for run in (vote.left_run, vote.right_run)]
    records = {record.id: record for record in store.records(runs)}
    counts: dict[str, Counter[Preferred]] = defaultdict(Counter)
    for vote in votes:
        if all(_uses_models(plan.models, records[run]) for run in (vote.left_run, vote.right_run)):
            rule = vote.right_rule if vote.left_rule == BASELINE else vote.left_rule
            winner = {Choice.LEFT: vote.left_rule, Choice.RIGHT: vote.right_rule}.get(vote.choice)
            choice = Preferred.BASELINE if winner == BASELINE else Preferred.RULE
            counts[rule][choice if winner else Preferred.TIE] += 1
    return tuple(_vote_row(rule, counts[rule]) for rule in rules if rule in counts)


def _judged(judgements: Sequence[StoredJudgement], plan: Plan) -> tuple[VoteRow, ...]:
    """Tasks that the last judge has judged in both orders, by lane: a win or a loss where both
    agree, else a tie (MT-bench, 2306.05685, 3.4). Verdicts of an earlier judge that the last one
    has not replaced do not count."""
    orders: dict[tuple[int, int], list[Preferred]] = defaultdict(list)
    last = max(judgements, key=attrgetter("created_at"), default=None)
    for judgement in judgements:
        if last and judgement.judge == last.judge:
            orders[judgement.lane, judgement.task].append(judgement.choice)
    counts: dict[int, Counter[Preferred]] = defaultdict(Counter)
    for (lane, _), choices in orders.items():
        if len(choices) == 2:
            counts[lane][choices[0] if len(set(choices)) == 1 else Preferred.TIE] += 1
    return tuple(_vote_row(plan.title(plan.lanes[lane]), counts[lane]) for lane in sorted(counts))


def _vote_row(rule: str, counts: Mapping[Preferred, int]) -> VoteRow:
    wins, losses, ties = (
        counts[each] for each in (Preferred.RULE, Preferred.BASELINE, Preferred.TIE)
    )
    return VoteRow(rule, wins, losses, ties, count_interval(wins, wins + losses))


def _uses_models(models: Models, run: RunRecord) -> bool:
    """Return whether a run used the target of the study, and its drafter if it had one: of the same
    name, and the same revision where both are known."""

    def among(used: ModelRef, *planned: ModelRef | None) -> bool:
        same = (each for each in planned if each and each.name == used.name)
        return any(len({used.revision, each.revision} - {None}) < 2 for each in same)

    drafter = run.config.drafter.model
    return among(run.config.target, models.target) and (
        drafter is None or among(drafter, models.draft, models.head)
    )
