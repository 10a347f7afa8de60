"""The files of a stored study: the CSV has every result with what its statistics rest on, and the
report is written completely."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from evaluation.report.document.charts import charts
from evaluation.report.document.tables import COLUMNS, LaneRow
from evaluation.report.files import (
    markdown_of,
    measured_table,
    prompts_table,
    results_table,
    write_markdown,
    write_report,
)
from evaluation.study.result import read_result
from mars_core.types import DrafterConfig, RuleConfig, TreeShape
from storage import RunStore
from storage.export import csv_text
from tests.reports import make_report
from tests.unit.evaluation.report.studies import METRIC, small_plan, stored_study
from tests.unit.storage.exports import parsed


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('files') / 'runs.db'}") as store:
        yield store


@pytest.fixture(scope="module")
def study(store: RunStore) -> str:
    return stored_study(store)


def test_results_csv_has_every_result_with_all_its_numbers(store: RunStore, study: str) -> None:
    rows, plan = parsed(csv_text(results_table(store, study))), small_plan()
    assert [(row["task"], row["lane"]) for row in rows] == [
        (task, lane) for task in "0123" for lane in "012"
    ]
    for row, stored in zip(rows, store.results(study), strict=True):
        result = read_result(stored.data)
        assert float(row[f"score:{METRIC}"]) == result.scores[METRIC]
        assert json.loads(row["kept_at"]) == list(result.kept_at)
        assert float(row["kl_sum"]) == result.kl_sum
        assert int(row["seed"]) == plan.seed_of(plan.task(stored.task))
        assert row["baseline_lane"] == ("" if stored.lane == 1 else "1")
        assert json.loads(row["run_ids"]) == list(stored.run_ids)
    assert rows[-1]["status"] == "failed" and rows[-1]["error"]
    same = "true" if rows[2]["divergence"] == "" else "false"
    assert [row["same"] for row in rows[:3]] == ["true", "true", same]
    assert {row["item"][:10] for row in rows} == {"one", "</td><scri"}


def test_a_tv_that_is_a_bound_or_missing_says_so_in_reports_and_files() -> None:
    report = make_report()
    for tree, kinds in (
        (None, {"exact": "", "bound": "≤ "}),
        (TreeShape(12, 3, 4), {"exact": "", "missing": ""}),
    ):
        drafter = DrafterConfig("eagle3", tree=tree)
        lanes = tuple(
            replace(lane, rule=RuleConfig(rule), drafter=drafter)
            for lane, rule in zip(report.plan.lanes[1:3], ("strict", "lenience"), strict=True)
        )
        changed = replace(
            report,
            plan=replace(report.plan, lanes=(report.plan.lanes[0], *lanes), temperatures=(1.0,)),
        )
        rows = [replace(report.measured[lane], lane=lane, temperature=1.0) for lane in (1, 2)]
        changed = replace(
            changed,
            measured=tuple(rows),
            prompts=(replace(report.prompts[0], lane=2, temperature=1.0),),
        )
        written = {row["tv_kind"] for row in parsed(csv_text(measured_table(changed)))}
        assert written == set(kinds)
        cell = COLUMNS["tv_token"][1]
        cells = [cell(LaneRow(each, changed.plan.lanes[each.lane])) for each in rows]
        assert [cell.text.startswith("≤") for cell in cells] == [
            bool(mark) for mark in kinds.values()
        ]
        (chart,) = charts(changed)
        texts = [chart.quantities["tv_token"].text(point) for point in chart.points]
        bounds = sorted("TV per token ≤" in text for text in texts)
        assert bounds == sorted(bool(mark) for mark in kinds.values())
        (prompt,) = parsed(csv_text(prompts_table(changed)))
        assert prompt["tv_kind"] == [*kinds][1]


def test_a_report_is_written_completely_or_not_at_all(
    store: RunStore, study: str, tmp_path: Path
) -> None:
    first = make_report().prompts[0]
    runs = [result.run_ids[0] for result in store.results(study)[1:3]]
    stored = replace(first, turns=((runs[0], runs[1]),))
    report = replace(make_report(), id=study, prompts=(stored,))
    paths = write_report(store, report, tmp_path / "new" / "folder")
    names = [
        "report.html",
        "report.md",
        "results.csv",
        "measured.csv",
        "prompts.csv",
        "matrix.csv",
        "plan.json",
    ]
    assert {path.name for path in paths} == set(names)
    assert all(path.stat().st_size for path in paths)
    texts = [record.text for record in store.records(runs)]
    page = (tmp_path / "new" / "folder" / "report.html").read_text("utf-8")
    assert "mq-side" in page and texts[0][:12] in page


def test_markdown_names_the_figures_in_the_file_beside_it(store: RunStore, tmp_path: Path) -> None:
    """Whatever the name of the file: it is no markup."""
    path = tmp_path / "a_b_ (1) <i>&amp;]|.md"
    report = replace(make_report(), prompts=make_report().prompts[:1])
    assert write_markdown(report, path, store) == (path, path.with_suffix(".html"))
    page, text = path.with_suffix(".html").read_text("utf-8"), path.read_text("utf-8")
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inside = [each for token in tokens for each in token.children or []]
    links = [unquote(str(each.attrGet("href"))) for each in inside if each.type == "link_open"]
    names = [link.removeprefix(f"{path.stem}.html#") for link in links]
    assert names[:3] == ["chart-kept", "chart-1-kept", "chart-1-parameter"]
    assert all(f'id="{name}"' in page for name in names)
    assert "no longer in the database" in text
    assert "chart-" not in markdown_of(make_report())
