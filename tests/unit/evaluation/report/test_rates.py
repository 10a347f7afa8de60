"""τ, throughput and times by prompt length and by load, recomputed from the single results; the best
K, and the load from which on drafts do not pay."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from display.blocks import Paragraph, Picture, ReportTable, Section
from display.render import escaped
from evaluation.plan.lane import Lane
from evaluation.plan.models import Served
from evaluation.plan.plan import Plan
from evaluation.report.document.over import (
    best_blocks,
    length_section,
    load_picture,
)
from evaluation.report.files import matrix_table
from evaluation.report.rows import LengthRow, LoadRow
from evaluation.statistics import Interval
from mars_core.types import DrafterConfig, RuleConfig
from storage import StoredResult
from storage.export import csv_text
from tests.panels import panels_of
from tests.unit.evaluation.report.drawn import drawn_results, reported, study_plan

Study = tuple[Plan, list[StoredResult]]


def lengths() -> Study:
    base = study_plan(items=4, repeats=1, temperatures=(0.0,))
    suites = tuple(replace(base.suites[0], name=f"sums {n}", tokens=n) for n in (512, 1024))
    plan = replace(base, suites=suites)
    return plan, [
        replace(one, data=one.data | {"prompt_tokens": 500 + 500 * (one.task // 4)})
        for one in drawn_results(plan)
    ]


def batches() -> Study:
    plan = study_plan(items=6, repeats=2, batch=4, loads=(1, 4))
    return plan, [
        replace(one, data=one.data | {"batch": (1, 4)[one.task % 2], "batch_s": 0.1 + one.lane})
        for one in drawn_results(plan)
    ]


def served() -> Study:
    lanes = tuple(
        Lane(RuleConfig(rule), DrafterConfig("server", None, 0)) for rule in ("strict", "server")
    )
    server = Served("http://one/v1", "big", concurrency=(1, 4))
    plan = study_plan(items=10, repeats=4, served=server, lanes=lanes)
    return plan, [
        replace(one, data=one.data | {"ttft_s": 0.01 + one.task / 1e5})
        for one in drawn_results(plan)
    ]


def runs_of(
    plan: Plan, rows: list[StoredResult], row: LengthRow | LoadRow, lane: int, *names: str
) -> list[list[float]]:
    """The numbers of the runs that the row is about, in a lane."""
    found = []
    for one in rows:
        task = plan.task(one.task)
        if isinstance(row, LengthRow):
            same = plan.suites[task.suite].tokens == row.length
            same &= row.group in ("", plan.item(task).category)
        else:
            same = row.load == (plan.served.load(task.repeat) if plan.served else one.data["batch"])
        if same and one.lane == lane and task.temperature == row.temperature:
            found.append([one.data[name] for name in names])
    return list(zip(*found, strict=True))


@pytest.mark.parametrize("study", [lengths, batches, served])
def test_rates_are_those_of_their_tasks(study: Callable[[], Study]) -> None:
    plan, rows = study()
    report = reported(plan, rows)
    by_length = [row for row in report.lengths if study is lengths]
    for row in (*report.loads, *by_length):
        load = row.load if isinstance(row, LoadRow) else 1
        lane = plan.lanes.index(row.lane) if isinstance(row, LoadRow) else row.lane
        seconds = "wall_s" if plan.served or load == 1 else "batch_s"
        names = "new_tokens", seconds, "steps", "prompt_tokens", "wall_s"
        (tokens, times, steps, read, walls), (none_tokens, none_times, *_) = (
            runs_of(plan, rows, row, each, *names) for each in (lane, 0)
        )
        rate = sum(tokens) / sum(times)
        assert row.tokens_per_s.value == pytest.approx((load if plan.served else 1) * rate)
        assert row.tokens_per_s.low < row.tokens_per_s.value < row.tokens_per_s.high
        none = sum(none_tokens) / sum(none_times) if lane and not plan.served else np.nan
        assert row.over_none.value == pytest.approx(rate / none, nan_ok=True)
        if isinstance(row, LengthRow):
            assert (row.runs, row.read) == (len(read), pytest.approx(np.mean(read)))
            tau = sum(tokens) / sum(steps) if plan.lanes[lane].drafts else np.nan
            assert row.tau.value == pytest.approx(tau, nan_ok=True)
            continue
        share = load if plan.served else 1
        assert row.answers == len(times)
        assert row.answers_per_s == pytest.approx(share * len(times) / sum(times))
        ends = np.percentile(walls, [50, 95]) if plan.served or load == 1 else [np.nan] * 2
        assert [row.latency_s, row.latency_95_s] == pytest.approx(list(ends), nan_ok=True)
        if plan.served:
            (first,) = runs_of(plan, rows, row, lane, "ttft_s")
            assert [row.ttft_s, row.ttft_95_s] == pytest.approx(
                list(np.percentile(first, [50, 95]))
            )
    loads = [(row.temperature, row.load, row.lane) for row in report.loads]
    every = product(plan.temperatures, (1, 4), plan.lanes)
    assert loads == ([] if study is lengths else list(every))


def test_the_speeds_of_a_batch_are_left_out_of_the_lanes_and_other_texts_are_named() -> None:
    plan, rows = batches()
    report = reported(plan, rows)
    assert {each.runs for each in report.measured if each.group == "all"} == {plan.tasks // 4}
    (warning,) = (each for each in report.warnings if "larger batches" in each)
    assert warning.endswith("have another text than in the smallest.")


def first_and_last(section: Section | None) -> tuple[Picture, ReportTable]:
    """The picture of a section, and its last table."""
    assert section
    picture, *_, table = section.blocks
    assert isinstance(picture, Picture) and isinstance(table, ReportTable)
    return picture, table


def test_lengths_are_a_figure_and_a_table_and_by_category_a_file() -> None:
    plan, rows = lengths()
    report = reported(plan, rows)
    picture, table = first_and_last(length_section(report))
    assert len(table.rows) == 2 * len(plan.lanes)
    panels = panels_of(picture.plot, by_caption=True)
    assert {name: len(texts) for name, texts in panels.items()} == {
        "τ, T = 0": 6,  # none has no τ
        "Tokens/s, T = 0": 8,
    }
    written = list(csv.DictReader(io.StringIO(csv_text(matrix_table(report)))))
    groups = {(row["category"], row["prompt_tokens_at_most"]) for row in written}
    assert groups == {*product(("", "small", "large"), ("512", "1024"))}
    assert {row["k"] for row in written} == {"", "5"}


def test_prompts_as_they_are_have_a_matrix_by_powers_of_two_and_no_section() -> None:
    plan = study_plan(items=4, repeats=1)
    report = reported(plan, drawn_results(plan))
    assert {row.length for row in report.lengths} == {8}  # of 7 tokens
    assert length_section(report) is None
    unknown = [
        replace(one, data=one.data | {"prompt_tokens": "nan"}) for one in drawn_results(plan)
    ]
    assert reported(plan, unknown).lengths == ()


def load_row(load: int, k: int, gain: float) -> LoadRow:
    """``k``: 0 for none."""
    drafter = DrafterConfig("model", None, k) if k else DrafterConfig("none")
    lane = Lane(RuleConfig("mars" if k else "none"), drafter)
    rate, over = (Interval(each, each - 0.1, each + 0.1) for each in (10 * gain, gain))
    return LoadRow(0.0, lane, load, rate, over if k else Interval())


@pytest.mark.parametrize(
    ("gains", "words", "best", "schedule"),
    [
        (
            ((2.0, 1.5), (1.9, 1.8), (1.0, 1.3)),
            "faster than none in a batch of 16, the largest",
            ("K = 5: 2.00×", "K = 5: 1.90×", "K = 2: 1.30×"),
            {"1-15": 5, "16-16": 2},
        ),
        (
            ((1.5, 0.7), (0.9, 0.7), (1.2, 0.7)),
            "faster than none in a batch of 16, the largest",
            ("K = 5: 1.50×", "K = 5: 0.900×", "K = 5: 1.20×"),
            {"1-3": 5, "4-15": 0, "16-16": 5},
        ),
        (
            ((1.5, 0.7), (1.05, 0.7), (0.8, 0.7)),
            "not faster than none from 4 runs on",
            ("K = 5: 1.50×", "K = 5: 1.05×", "K = 5: 0.800×"),
            {"1-3": 5, "4-16": 0},
        ),
        (
            ((1.05, 0.7), (0.9, 0.7), (0.8, 0.7)),
            "not faster than none at any load",
            ("K = 5: 1.05×", "K = 5: 0.900×", "K = 5: 0.800×"),
            None,
        ),
    ],
)
def test_the_best_k_of_each_load_and_the_load_from_which_on_drafts_do_not_pay(
    gains: Sequence[tuple[float, float]],
    words: str,
    best: Sequence[str],
    schedule: dict[str, int] | None,
) -> None:
    loads = (1, 4, 16)
    rows = [load_row(load, 0, 1) for load in loads]
    for load, both in zip(loads, gains, strict=True):
        rows += [load_row(load, k, gain) for k, gain in zip((5, 2), both, strict=True)]
    sentence, table = best_blocks(rows)
    assert isinstance(sentence, Paragraph) and isinstance(table, ReportTable)
    said, _, setting = sentence.text.partition(" For vLLM: ")
    assert said == f"MARS, model, T = 0: {words}."
    if schedule is None:
        assert not setting
    for each in (setting, escaped(setting)) if schedule else ():  # Markdown too has it to be copied
        assert json.loads(each) == {"num_speculative_tokens_per_batch_size": schedule}
    cells = table.rows[0][3:]
    assert [cell.text for cell in cells] == [*best]
    marks = ["good" if gain > 1.1 else "bad" if gain < 0.9 else "open" for gain in map(max, gains)]
    assert [cell.mark for cell in cells] == marks
    sentence, _ = best_blocks(rows[:-2])  # a load without drafts
    assert isinstance(sentence, Paragraph) and "vLLM" not in sentence.text
    (picture,) = load_picture(rows)
    assert [len(texts) for texts in panels_of(picture.plot).values()] == [9]
    names = [
        trace["name"] for trace in picture.plot.figure.to_plotly_json()["data"] if "name" in trace
    ]
    assert names == ["none", "draft model, K = 5", "draft model, K = 2"]
    assert picture.plot.data.rows[0][:4] == ("Tokens/s: MARS, model, T = 0", "none", "1", 10.0)
