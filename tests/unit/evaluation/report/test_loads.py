"""Throughput by load: the best K, the load from which on drafts do not pay, the figure."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from display.blocks import Paragraph, ReportTable
from display.render import escaped
from evaluation.plan.lane import Lane
from evaluation.report.document.loads import best_blocks, load_pictures
from evaluation.report.rows import LoadRow
from evaluation.statistics import Interval
from mars_core.types import DrafterConfig, RuleConfig
from tests.panels import panels_of
from tests.unit.evaluation.report.drawn import drawn_results, reported, study_plan

NONE = Lane(RuleConfig("none"), DrafterConfig("none"))
NOT = "not faster than none"


def row(load: int, k: int, gain: float, spread: float = 0.1) -> LoadRow:
    drafts = Lane(RuleConfig("mars"), DrafterConfig("model", None, k))
    rate, over = (Interval(each, each - spread, each + spread) for each in (10 * gain, gain))
    return LoadRow(0.0, drafts if k else NONE, load, rate, over if k else Interval())


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((1.5, 1.3, 1.2), "faster than none in a batch of 16, the largest"),
        ((1.5, 1.05, 0.8), f"{NOT} from 4 runs on"),
        ((1.5, 0.9, 1.2), "faster than none in a batch of 16, the largest"),
        ((1.05, 0.9, 0.8), f"{NOT} at any load"),
    ],
)
def test_the_load_from_which_on_drafts_do_not_pay(gains: tuple[float, ...], words: str) -> None:
    loads = (1, 4, 16)
    rows = [row(load, 5, gain) for load, gain in zip(loads, gains, strict=True)]
    rows += [row(load, 2, 0.7) for load in loads] + [row(load, 0, 1) for load in loads]
    sentence, table = best_blocks(rows)
    assert isinstance(sentence, Paragraph)
    assert sentence.text.partition(" For vLLM")[0] == f"MARS, model, T = 0: {words}."
    assert isinstance(table, ReportTable)
    marks = {True: "good", False: "open" if gains[1] > 0.9 else "bad"}
    assert table.rows[0][2].text == f"K = 5: {gains[0]:.2f}×"
    assert table.rows[0][3].mark == marks[gains[1] > 1.1] or gains[1] == 0.9


def test_the_best_k_is_that_of_each_load() -> None:
    rows = [row(1, 5, 2.0), row(1, 2, 1.5), row(8, 5, 1.0), row(8, 2, 1.3), row(1, 0, 1)]
    *_, table = best_blocks(rows)
    assert isinstance(table, ReportTable)
    assert [cell.text for cell in table.rows[0][2:]] == ["K = 5: 2.00×", "K = 2: 1.30×"]
    (picture,) = load_pictures(rows)
    figure = picture.plot.figure.to_plotly_json()
    assert [len(texts) for texts in panels_of(picture.plot).values()] == [5]
    names = [trace["name"] for trace in figure["data"] if "name" in trace]
    assert names == ["none", "draft model, K = 5", "draft model, K = 2"]
    assert picture.plot.data.rows[0][:4] == ("Tokens/s: MARS, model", "none", "1", 10.0)


def test_the_best_k_of_each_load_is_a_setting_of_vllm() -> None:
    gains = {1: (2.0, 1.5), 4: (1.9, 1.8), 8: (1.0, 1.3), 16: (0.9, 1.05)}
    rows = [
        row(load, k, gain)
        for load, both in gains.items()
        for k, gain in zip((5, 2), both, strict=True)
    ]
    sentence, _ = best_blocks(rows)
    assert isinstance(sentence, Paragraph)
    _, _, written = sentence.text.partition(" For vLLM: ")
    sizes = {"1-7": 5, "8-15": 2, "16-16": 0}
    for each in (written, escaped(written)):  # Markdown too has it to be copied
        assert json.loads(each) == {"num_speculative_tokens_per_batch_size": sizes}
    for fewer in ([*rows[:-2], row(16, 0, 1)], [row(load, 5, 0.9) for load in gains]):
        sentence, _ = best_blocks(fewer)
        assert isinstance(sentence, Paragraph) and "vLLM" not in sentence.text


def test_a_batch_is_compared_with_none_in_a_batch_of_the_same_size() -> None:
    plan = study_plan(items=6, repeats=2, temperatures=(0.0,), batch=4, loads=(1, 4))
    rows = [
        replace(one, data=one.data | {"batch": (1, 4)[one.task % 2], "batch_s": 0.1 + one.lane})
        for one in drawn_results(plan)
    ]
    report = reported(plan, rows)
    assert {each.runs for each in report.measured if each.group == "all"} == {plan.tasks // 2}
    for load in report.loads:
        here, number = (
            [one for one in rows if one.data["batch"] == load.load],
            plan.lanes.index(load.lane),
        )
        seconds = "wall_s" if load.load == 1 else "batch_s"
        rate, none = (
            sum(one.data["new_tokens"] for one in here if one.lane == lane)
            / sum(one.data[seconds] for one in here if one.lane == lane)
            for lane in (number, 0)
        )
        assert load.tokens_per_s.value == pytest.approx(rate)
        if number:
            assert load.over_none.value == pytest.approx(rate / none)
    (warning,) = (each for each in report.warnings if "larger batches" in each)
    assert warning.endswith("have another text than in the smallest.")
