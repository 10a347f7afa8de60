"""A study as JSON in the field's shapes, so that other tools read it: lm-eval's results and samples, Spec-Bench's and EAGLE's answers.

A lane at one temperature is what these tools call a model. The seeds of a study are lm-eval's repeats, and Spec-Bench's choices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.report import answer_rows, lm_eval_files
from evaluation.report.answered import Answer, Answered
from evaluation.report.texts import records_of, text_of
from evaluation.study.plan import Plan, read_plan
from evaluation.study.result import Result, read_result
from mars_core.types import Status
from storage import RunRecord, RunStore
from storage.kept import kept_by_step
from storage.results import StoredResult


def write_lm_eval(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """For each lane and temperature a folder as lm-eval's ``--output_path`` makes it: ``results_TIME.json``, ``samples_SUITE_TIME.jsonl``.

    ``arguments`` hold the user's text of each turn, without what the chat template adds. Failed answers are left out.
    Raises StorageError; ValueError for a study of another version.
    """
    plan = read_plan(store.study(study_id).plan)
    written: list[Path] = []
    for answered in _answered(store, study_id, plan, steps=False):
        place = folder / answered.name
        samples = {suite.name: lm_eval_files.samples(answered, number) for number, suite in enumerate(plan.suites)}
        results = lm_eval_files.results(answered, samples) | {"mars_study": study_id}
        written.append(_write(place / f"results_{answered.time}.json", [results], indent=2))
        for suite, rows in samples.items():
            if rows:
                written.append(_write(place / f"samples_{_word(suite)}_{answered.time}.jsonl", rows))
    return tuple(written)


def write_answers(store: RunStore, study_id: str, folder: Path) -> tuple[Path, ...]:
    """For each suite, lane and temperature ``SUITE/model_answer/MODEL.jsonl``, a line a question, as Spec-Bench and EAGLE write them.

    Failed answers are left out. Raises StorageError; ValueError for a study of another version.
    """
    plan = read_plan(store.study(study_id).plan)
    written: list[Path] = []
    for answered in _answered(store, study_id, plan, steps=True):
        for number, suite in enumerate(plan.suites):
            if rows := answer_rows.rows(answered, number):
                written.append(_write(folder / _word(suite.name) / "model_answer" / f"{answered.name}.jsonl", rows))
    return tuple(written)


def _answered(store: RunStore, study_id: str, plan: Plan, *, steps: bool) -> Iterator[Answered]:
    """The answers of each lane at each temperature. ``steps``: with the lengths of their steps."""
    groups: dict[tuple[int, float], list[StoredResult]] = {}
    for result in store.results(study_id):
        groups.setdefault((result.lane, plan.task(result.task).temperature), []).append(result)
    names = _names(plan, sorted(groups))
    for (lane, temperature), results in sorted(groups.items()):
        read = [(result, read_result(result.data)) for result in results]
        whole = [(stored, result) for stored, result in read if result.status is Status.COMPLETED]
        run_ids = [run_id for stored, _ in whole for run_id in stored.run_ids]
        records = records_of(store, run_ids)
        kept = kept_by_step(store, run_ids) if steps else {}
        answers = [
            _answer(plan, stored, result, records, kept)
            for stored, result in whole
            if all(run_id in records for run_id in stored.run_ids)
        ]
        yield Answered(
            plan=plan,
            lane=lane,
            temperature=temperature,
            name=names[lane, temperature],
            answers=tuple(answers),
            failed=len(results) - len(whole),
            gone=len(whole) - len(answers),
        )


def _answer(
    plan: Plan, stored: StoredResult, result: Result, records: Mapping[str, RunRecord], kept: Mapping[str, tuple[int, ...]]
) -> Answer:  # fmt: skip
    runs = tuple(records[run_id] for run_id in stored.run_ids)
    return Answer(
        task=plan.task(stored.task),
        result=result,
        runs=runs,
        texts=tuple(map(text_of, runs)),
        lengths=tuple(_lengths(kept.get(run.id, ()), run.summary.new_tokens) for run in runs),
        saved_at=stored.created_at,
    )


def _lengths(kept: tuple[int, ...], new_tokens: int) -> tuple[int, ...]:
    """Tokens that each step wrote: what it kept and one more; in the last step what is left, as the text may end before that."""
    lengths = [one + 1 for one in kept]
    return tuple(lengths[:-1]) + ((new_tokens - sum(lengths[:-1]),) if lengths else ())


def _names(plan: Plan, groups: Iterable[tuple[int, float]]) -> dict[tuple[int, float], str]:
    """A name for every lane and temperature that may stand in a path, as lm-eval and EAGLE name a model."""
    names: dict[tuple[int, float], str] = {}
    target = plan.models.target.name.rstrip("/").rpartition("/")[2]
    for lane, temperature in groups:
        words = _word(f"{target}-{plan.lanes[lane].name}-{plan.lanes[lane].drafts}")
        name = f"{words}-temperature-{temperature:g}"
        names[lane, temperature] = f"{name}-lane-{lane}" if name in names.values() else name
    return names


def _word(text: str) -> str:
    """For names of files: letters, digits and ``.=-``, the rest underlined."""
    return re.sub(r"[^\w.=-]+", "_", text, flags=re.ASCII).strip("_.-")[:150] or "unnamed"


def _write(path: Path, rows: Iterable[Mapping[str, Any]], indent: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False, indent=indent) + "\n" for row in rows)
    return path
