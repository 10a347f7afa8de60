"""A study judged pair by pair: each rule's answer beside its baseline's, in both orders; every verdict is kept as it comes.

Verdicts of the same judge that are there already are not asked for again, so that a judging that was stopped can go on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import NamedTuple

from evaluation.judge.endpoint import Endpoint, JudgeError
from evaluation.judge.question import preferred, question
from evaluation.report.texts import records_of, text_of
from evaluation.study.plan import Plan, read_plan
from evaluation.study.result import read_result
from evaluation.suites.item import Item
from mars_core.types import Status
from storage import RunRecord, RunStore
from storage.results import StoredResult
from storage.words import Preferred

MOST_FAILURES = 5  # one after the other: then the endpoint is taken to be gone
SAME = "The two answers are the same; nobody was asked."


class Pair(NamedTuple):
    """Two answers to one item, one text a turn. ``lane`` is the rule's."""

    task: int
    lane: int
    item: Item
    rule: tuple[str, ...]
    baseline: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Questions, two a pair. ``same``: pairs of equal answers, which are ties; ``unclear``: answers without a verdict, not kept."""

    total: int
    judged: int = 0
    same: int = 0
    unclear: int = 0
    failed: int = 0
    error: str = ""  # of the last one that failed


def judge_study(
    store: RunStore, study_id: str, endpoint: Endpoint, *, limit: int | None = None, parallel: int = 4
) -> Iterator[Progress]:
    """Ask for every verdict that is not there yet. ``limit``: pairs at most, drawn over the whole study, the same ones every time.

    Raises JudgeError when MOST_FAILURES questions in a row fail, StorageError where the store fails.
    """
    pairs = _pairs(store, study_id)
    random.Random(study_id).shuffle(pairs)
    pairs = pairs[:limit]
    judge = endpoint.settings.model
    known = {(each.task, each.lane, each.swapped) for each in store.judgements(study_id) if each.judge == judge}
    jobs = [(pair, swapped) for pair in pairs for swapped in (False, True)]
    open_jobs = [(pair, swapped) for pair, swapped in jobs if (pair.task, pair.lane, swapped) not in known]
    progress = Progress(len(jobs), judged=len(jobs) - len(open_jobs))
    asked = []
    for pair, swapped in open_jobs:
        if pair.rule == pair.baseline:
            _keep(store, study_id, pair, swapped, judge, Preferred.TIE, SAME)
            progress = replace(progress, judged=progress.judged + 1, same=progress.same + (not swapped))
        else:
            asked.append((pair, swapped))
    yield progress
    yield from _ask_all(store, study_id, endpoint, asked, progress, parallel)


def _ask_all(
    store: RunStore, study_id: str, endpoint: Endpoint, jobs: list[tuple[Pair, bool]], progress: Progress, parallel: int
) -> Iterator[Progress]:
    pool = ThreadPoolExecutor(max_workers=max(1, parallel))
    in_a_row = 0
    try:
        waiting = {
            pool.submit(endpoint.ask, question(pair.item, pair.rule, pair.baseline, swapped=swapped)): (pair, swapped)
            for pair, swapped in jobs
        }
        for done in as_completed(waiting):
            pair, swapped = waiting[done]
            try:
                answer = done.result()
            except JudgeError as error:
                in_a_row += 1
                if in_a_row >= MOST_FAILURES:
                    raise
                progress = replace(progress, failed=progress.failed + 1, error=str(error))
            else:
                in_a_row = 0
                progress = _heard(store, study_id, endpoint.settings.model, pair, swapped, answer, progress)
            yield progress
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _heard(
    store: RunStore, study_id: str, judge: str, pair: Pair, swapped: bool, answer: str, progress: Progress
) -> Progress:
    choice = preferred(answer, swapped=swapped)
    if choice is None:
        return replace(progress, unclear=progress.unclear + 1)
    _keep(store, study_id, pair, swapped, judge, choice, answer)
    return replace(progress, judged=progress.judged + 1)


def _keep(store: RunStore, study_id: str, pair: Pair, swapped: bool, judge: str, choice: Preferred, text: str) -> None:
    store.add_judgement(study_id, pair.task, pair.lane, swapped=swapped, judge=judge, choice=choice, text=text)


def _pairs(store: RunStore, study_id: str) -> list[Pair]:
    """Every completed answer of a rule, with its baseline's, whose texts are still there; plain decoding is no rule."""
    plan = read_plan(store.study(study_id).plan)
    completed = {
        (result.task, result.lane): result
        for result in store.results(study_id)
        if read_result(result.data).status is Status.COMPLETED
    }
    wanted = [
        (result, completed[task, baseline])
        for (task, lane), result in completed.items()
        if (baseline := _baseline(plan, lane)) is not None and (task, baseline) in completed
    ]
    run_ids = dict.fromkeys(run_id for results in wanted for result in results for run_id in result.run_ids)
    records = records_of(store, list(run_ids))
    return [
        Pair(rule.task, rule.lane, plan.item(plan.task(rule.task)), _texts(rule, records), _texts(baseline, records))
        for rule, baseline in wanted
        if all(run_id in records for run_id in (*rule.run_ids, *baseline.run_ids))
    ]


def _baseline(plan: Plan, lane: int) -> int | None:
    return None if lane == plan.none else plan.baseline(lane)


def _texts(result: StoredResult, records: dict[str, RunRecord]) -> tuple[str, ...]:
    return tuple(text_of(records[run_id]) for run_id in result.run_ids)
