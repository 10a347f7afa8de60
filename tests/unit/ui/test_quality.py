"""The Quality tab without a browser: studies in words, reports measured once, both texts,
downloads, hostile texts."""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import gradio as gr
import pytest

from evaluation.options import read_plan_options
from evaluation.report.example import EXAMPLE, FILE, example
from evaluation.report.files import measured_table
from evaluation.report.values import Report
from mars_core.models import CATALOG
from mars_playground.__main__ import parser
from storage import RunStore, StorageError, StudyProgress
from storage.export import csv_text
from tests.reports import HOSTILE, make_report
from tests.unit.evaluation.report.studies import stored_study
from tests.unit.storage.exports import parsed
from tests.unit.ui.helpers import client_of, failing, one_loop, services_of
from ui.kit.values import plain
from ui.tabs.study.reports import FILES, PAUSE_S, StudyReports
from ui.tabs.study.studies import progress_strip, studies_html
from ui.tabs.study.tab import QualityTab, chosen_prompt

ABSENT = "f" * 32


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('quality') / 'runs.db'}") as store:
        yield store


@pytest.fixture(scope="module")
def study(store: RunStore) -> str:
    return stored_study(store)


@pytest.fixture(scope="module")
def open_study(store: RunStore) -> str:
    return stored_study(store, tasks=1, name=HOSTILE[:60])


@pytest.fixture(scope="module")
def view(store: RunStore) -> Iterator[QualityTab]:
    """Of a page that is never served."""
    with one_loop(), gr.Blocks(analytics_enabled=False):
        yield QualityTab(services_of(store))


class Clock:
    now = measured = 0

    def __call__(self) -> float:
        return self.now

    def measure(self, store: RunStore, study_id: str) -> Report:
        """A made-up report of a stored study; the first prompt's runs are those of the first
        task."""
        self.measured += 1
        report, runs = make_report(), [result.run_ids[0] for result in store.results(study_id)]
        first = replace(report.prompts[0], turns=((runs[1], runs[2]),))
        return replace(
            report,
            id=study_id,
            tasks_done=store.study(study_id).done,
            prompts=(first, *report.prompts[1:]),
        )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reports(store: RunStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> StudyReports:
    monkeypatch.setattr("ui.tabs.study.reports.measured", clock.measure)
    monkeypatch.setattr("ui.tabs.study.reports.time", SimpleNamespace(monotonic=clock))
    return StudyReports(store)


def test_the_list_says_how_far_every_study_is(store: RunStore, study: str, open_study: str) -> None:
    html = studies_html(services_of(store), study)
    assert f'data-opened="{study}"' in html
    assert "<img" not in html and "<script" not in html
    rows = {re.findall('"id": "(.*?)"', entry)[0]: entry for entry in html.split("<li>")[1:]}
    assert (
        "4 of 4 tasks" in rows[study]
        and 'badge">done' in rows[study]
        and "width: 100.0%" in rows[study]
    )
    assert "1 of 4 tasks" in rows[open_study] and 'badge">unfinished' in rows[open_study]


def test_a_database_without_studies_opens_the_example(tmp_path: Path) -> None:
    with RunStore(f"sqlite:///{tmp_path / 'runs.db'}") as empty:
        html = studies_html(services_of(empty), "")
        public = studies_html(services_of(empty, public=True), "")
        chosen = studies_html(services_of(empty), EXAMPLE)
    assert f'data-first="{EXAMPLE}"' in html and html.count("<li>") == 1
    assert f'data-first="{EXAMPLE}"' in public
    assert f'data-opened="{EXAMPLE}"' in chosen and "data-first" not in chosen


def test_the_example_is_opened_though_no_database_has_it(view: QualityTab) -> None:
    request: Any = SimpleNamespace(session_hash="s", headers={}, cookies={})
    updates = view.choose(gr.EventData(None, {"id": EXAMPLE}), request)  # type: ignore[arg-type]
    assert "An example: 300 questions" in updates[view.strip]
    missing = view.choose(gr.EventData(None, {"id": ABSENT}), request)  # type: ignore[arg-type]
    assert "There is no study" in missing[view.strip]


def test_the_example_is_the_study_of_the_documentation() -> None:
    """Every number of docs/results that a report still has, to six digits, and the command that ran
    it."""
    report, folder = example(), Path(__file__).parents[3] / "docs"
    table = list(csv.DictReader(io.StringIO(csv_text(measured_table(report)))))
    text = (folder / "results" / "smollm2-placebo.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    heads = [head for head in rows[0] if not head.startswith("recovery_bootstrap")]
    computed, published = (
        [[row[head] for head in heads] for row in each] for each in (table, rows)
    )
    assert len(computed) == len(published) == 55

    def values(row: list[str]) -> list[object]:
        cells = ",".join(row).replace("[", "").replace("]", "").split(",")
        return [
            float(cell) if re.fullmatch(r" *-?[\d.]+(e-?\d+)?", cell) else cell for cell in cells
        ]

    for ours, theirs in zip(computed, published, strict=True):
        for one, other in zip(values(ours), values(theirs), strict=True):
            assert one == (
                pytest.approx(other, rel=1e-5, abs=1e-12) if isinstance(other, float) else other
            )
    command = re.search(
        "^mars eval (run --pair smollm2-135m (?!.*--interventions).*)$",
        (folder / "results.md").read_text("utf-8"),
        re.MULTILINE,
    )
    options = parser().parse_args(["eval", *shlex.split(command[1])])
    models = report.plan.models
    refs = {f"{each}_ref": getattr(models, each) for each in ("target", "draft", "head")}
    pair: Any = SimpleNamespace(spec=CATALOG[0], classifier_ref=None, tokenizer=None, **refs)
    plan = read_plan_options(options, pair).averaged
    chosen, published = (
        replace(each, lanes=tuple(lane for lane in each.lanes if not lane.is_control))
        for each in (plan, report.plan)
    )
    assert replace(chosen, batch=int(options.batch)) == published
    assert FILE.stat().st_size <= 200_000


def test_progress_is_a_sentence() -> None:
    working = StudyProgress(600, 200, 2400, 2.0, working=True)
    strip = progress_strip("sums", ABSENT, working, 11)
    assert strip.state == "running" and strip.progress == pytest.approx(1 / 3)
    assert plain(strip.parts).startswith("sums: 200 of 600 tasks done, 2.00 results/s.")
    assert strip.side == "about 35 min to go"  # (600 · 11 − 2400) / 2 s
    stopped = progress_strip("", ABSENT, replace(working, working=False), 11)
    assert stopped.state == "cancelled" and plain(stopped.parts).endswith(
        f"mars eval resume {ABSENT}"
    )
    assert progress_strip("", ABSENT, StudyProgress(2, 2, 22), 11).state == "done"
    assert progress_strip("", ABSENT, replace(working, pace=math.nan), 11).side == ""


def test_what_is_no_study_or_of_another_version_is_refused_in_a_sentence(
    store: RunStore,
    reports: StudyReports,
    view: QualityTab,
    study: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for study_id in (ABSENT, "../x", ""):
        with pytest.raises(
            (ValueError, StorageError), match=r"^(There is no study|study must be an id) .*\.$"
        ):
            view.open(reports, study_id)
    broken = failing("It was saved by another version.", ValueError)
    monkeypatch.setattr("ui.tabs.study.reports.measured", broken)
    with pytest.raises(ValueError, match="another version"):
        view.open(StudyReports(store), study)


def test_a_study_that_runs_is_measured_again_when_enough_is_new(
    reports: StudyReports, clock: Clock, view: QualityTab, store: RunStore
) -> None:
    study_id = stored_study(store, tasks=1)
    assert view.open(reports, study_id)[view.timer]["active"] is True
    again = view.news(reports, study_id)
    assert view.first not in again and clock.measured == 1
    store.finish_task(study_id, store.open_tasks(study_id)[0], {})
    assert view.first not in view.news(reports, study_id) and clock.measured == 1
    clock.now += PAUSE_S
    changed = view.news(reports, study_id)
    assert view.first in changed and clock.measured == 2
    store.delete_study(study_id)
    with pytest.raises(StorageError):
        view.news(reports, study_id)


def test_a_prompt_opens_both_runs_token_by_token(
    reports: StudyReports, store: RunStore, study: str
) -> None:
    runs = [result.run_ids[0] for result in store.results(study)[1:3]]
    value, views = chosen_prompt(reports, study, runs[1])
    assert ["".join(row[0] for row in view.rows) for view in views] == [
        record.text for record in store.records(runs)
    ]
    assert len({view.diverges for view in views}) == 1 and views[0].diverges is not None
    assert store.records(runs)[0].comparison_id in value and all(run in value for run in runs)
    assert chosen_prompt(reports, study, ABSENT) == ("", ())
    gone, views = chosen_prompt(reports, study, make_report().prompts[1].worst[1])
    assert views == () and "no longer in the database" in gone


def _sent(reports: StudyReports, name: str, study: str) -> Any:
    with patch("ui.routes.StudyReports", return_value=reports):
        return client_of(services_of(reports.store)).get(f"/downloads/{name}?study={study}")


@pytest.mark.parametrize("name", FILES)
def test_every_download_is_complete_or_explains_why_not(
    reports: StudyReports, study: str, name: str
) -> None:
    answer = _sent(reports, name, study)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    for wrong, status in ((ABSENT, 404), ("../x", 400)):
        assert _sent(reports, name, wrong).status_code == status
    assert parsed(answer.text) if name.endswith(".csv") else answer.content
    if name.endswith(".zip"):
        names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
        expected = {"report.html", "report.md", "results.csv"}
        assert expected <= set(names)
