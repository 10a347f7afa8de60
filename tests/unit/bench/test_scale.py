"""The bench of a large study: its copies are whole runs, and its report says what was found."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from bench.scale import LANES, build, main, rows_of
from evaluation.study.plan import read_plan
from storage import RunStore

TASKS, TOKENS = 4, 12


def test_copied_tasks_are_as_whole_as_those_that_ran(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    study_id = build(url, TASKS * len(LANES), TOKENS, base=1)
    with RunStore(url) as store:
        plan = read_plan(store.study(study_id).plan)
        assert (store.study(study_id).done, plan.tasks) == (TASKS, TASKS)
        results = store.results(study_id)
        assert [(one.task, one.lane) for one in results] == list(
            product(range(TASKS), range(len(LANES)))
        )
        ids = [run_id for one in results for run_id in one.run_ids]
        assert len(set(ids)) == len(ids) == TASKS * len(LANES)
        texts = [record.text for record in store.records(ids)]
        assert texts == texts[: len(LANES)] * TASKS
        runs = [run for id_ in store.comparisons()["id"] for run in store.load(id_).runs]
        assert sum(len(step.tokens) for run in runs for step in run.trace.steps) == rows_of(store)
        assert all(run.trace.summary.new_tokens == TOKENS for run in runs)


def test_what_was_measured_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.scale.BYTES", {16: 150})
    assert (
        main(
            [
                "--runs",
                "20",
                "--max-new-tokens",
                "12",
                "--rounds",
                "1",
                "--base",
                "1",
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    (found,) = tmp_path.glob("*-scale-cpu.md")
    text = found.read_text(encoding="utf-8")
    assert text.startswith("# A study of 20 runs of 12 tokens")
    assert "| report measured |" in text and "| tokens, Parquet: growth of memory |" in text
    assert found.with_suffix(".json").exists()
