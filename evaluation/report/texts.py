"""The texts of a study's stored runs: of its worst prompts, and of every lane for
export and for judging."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evaluation.item import Item
from evaluation.plan.plan import Plan, Task, read_plan
from evaluation.report.document.prompts import OPENED, Texts
from evaluation.report.rows import PromptRow
from evaluation.report.values import Report
from evaluation.study.result import answer, read_result
from mars_core.types import UNKNOWN, Status
from storage import RunRecord, RunStore, StoredResult


def records_of(store: RunStore, run_ids: Sequence[str]) -> dict[str, RunRecord]:
    """Run id → record, without runs whose comparison has been deleted. Raises StorageError where
    the database fails."""
    return {record.id: record for record in store.records(run_ids, existing=True)}


def worst_texts(store: RunStore, report: Report) -> dict[tuple[str, str], Texts]:
    """Read the texts of the prompts displayed in full in a report, by ``PromptRow.worst``."""
    return texts_of(store, report.prompts[:OPENED])


def texts_of(store: RunStore, rows: Sequence[PromptRow]) -> dict[tuple[str, str], Texts]:
    """Read the texts of these prompts by ``PromptRow.worst``, if all their runs are stored: of the
    first turn that differs, else the first."""
    turns = {row.worst: row.turns for row in rows if row.turns}
    records = records_of(
        store,
        list(dict.fromkeys(run for pairs in turns.values() for pair in pairs for run in pair)),
    )
    texts = {}
    for worst, ids in turns.items():
        if all(run in records for pair in ids for run in pair):
            pairs = [(records[baseline], records[rule]) for baseline, rule in ids]
            turn = next(
                (at for at, (baseline, rule) in enumerate(pairs) if baseline.text != rule.text), 0
            )
            baseline, rule = pairs[turn]
            number = turn + 1 if len(pairs) > 1 else 0
            texts[worst] = Texts(
                baseline.text, rule.text, rule.comparison_id, number, (baseline.id, rule.id)
            )
    return texts


class StoredAnswer(NamedTuple):
    """One item with one seed. ``runs``, ``texts`` (without a stop string) and ``lengths``: one per
    turn; lengths are tokens per step."""

    stored: StoredResult
    task: Task
    runs: tuple[RunRecord, ...]
    texts: tuple[str, ...]
    lengths: tuple[tuple[int, ...], ...]


class Answered(NamedTuple):
    """All completed answers of a lane at a temperature whose runs are stored. ``name`` is safe in a
    path."""

    plan: Plan
    lane: int
    name: str
    answers: tuple[StoredAnswer, ...]

    def items(self, suite: int) -> Iterator[tuple[int, Item, tuple[StoredAnswer, ...]]]:
        """Number, item and answers by seed, of every answered item of a suite."""
        by_item: dict[int, list[StoredAnswer]] = {}
        for one in sorted(self.answers, key=lambda one: (one.task.item, one.task.repeat)):
            if one.task.suite == suite:
                by_item.setdefault(one.task.item, []).append(one)
        for number, answers in by_item.items():
            yield number, self.plan.suites[suite].items[number], tuple(answers)


def read_answered(store: RunStore, study_id: str, *, steps: bool) -> Iterator[Answered]:
    """Read the answers by lane and temperature. ``steps``: with the lengths of their steps. Raises
    StorageError; ValueError for another version."""
    plan = read_plan(store.study(study_id).plan)
    groups: dict[tuple[int, float], list[StoredResult]] = {}
    for one in store.results(study_id):
        if plan.writes_anew(one.task):
            groups.setdefault((one.lane, plan.task(one.task).temperature), []).append(one)
    names: set[str] = set()
    for (lane, temperature), stored in sorted(groups.items()):
        completed = [one for one in stored if read_result(one.data).status is Status.COMPLETED]
        answers = tuple(_stored_answers(store, plan, completed, steps=steps))
        model = f"{plan.models.target.name.rstrip('/').rpartition('/')[2]}-{plan.lanes[lane].name}-{plan.lanes[lane].drafts}"
        name = f"{file_name(model)}-temperature-{temperature:g}"
        if name in names:
            name += f"-lane-{lane}"
        names.add(name)
        yield Answered(plan, lane, name, answers)


def _stored_answers(
    store: RunStore, plan: Plan, results: Sequence[StoredResult], *, steps: bool
) -> Iterator[StoredAnswer]:
    """Yield the answers of completed results, without those of which a run was deleted and those of
    placebos that relaxed nothing, whose runs are strict's."""
    run_ids = [run_id for one in results for run_id in one.run_ids]
    records = records_of(store, run_ids)
    accepted_of = store.accepted_by_step(run_ids) if steps else {}
    for one in results:
        runs = tuple(records[run_id] for run_id in one.run_ids if run_id in records)
        if runs and len(runs) == len(one.run_ids):
            lengths = tuple(
                _lengths(accepted_of.get(run.id, ()), run.summary.new_tokens) for run in runs
            )
            task, texts = plan.task(one.task), tuple(map(answer, runs))
            yield StoredAnswer(one, task, runs, texts, lengths)


def _lengths(accepted: tuple[int, ...], new_tokens: int) -> tuple[int, ...]:
    """Tokens per step: the accepted drafts and one more; in the last step the remaining ones, as
    the text may end earlier.

    Empty where a server did not report its steps.
    """
    if UNKNOWN in accepted:
        return ()
    lengths = [one + 1 for one in accepted]
    return tuple(lengths[:-1]) + ((new_tokens - sum(lengths[:-1]),) if lengths else ())


def file_name(text: str) -> str:
    """Letters, digits and ``.=-``; other characters become underscores."""
    return re.sub(r"[^\w.=-]+", "_", text, flags=re.ASCII).strip("_.-")[:150] or "unnamed"
