"""τ and speed by prompt length: prompts have the length that was asked for, and each number is that
of its tasks."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from display.blocks import Picture, ReportTable
from evaluation.item import Suite
from evaluation.plan.lengths import STORIES, with_lengths
from evaluation.plan.plan import read_plan
from evaluation.report.document.lengths import length_section
from evaluation.report.files import matrix_table
from evaluation.suites.read import read_suite
from mars_core.session import Session
from storage.export import csv_text
from tests.panels import panels_of
from tests.unit.evaluation.report.drawn import drawn_results, reported, study_plan
from training.demo.stories import passages


def test_a_prompt_of_a_length_ends_with_its_question_and_is_as_long_but_for_a_few_tokens(
    bundled_session: Session,
) -> None:
    suite = read_suite("demo_stories", 3)
    plan = replace(study_plan(), suites=(suite, read_suite("tools", 2)))
    tokenizer = bundled_session.pair.tokenizer
    made = with_lengths(plan, (1200, 2400), tokenizer)
    names = [each.name for each in made.suites]
    assert names[:2] == ["demo_stories at 1,200 tokens", "demo_stories at 2,400 tokens"]
    assert read_plan(made.as_dict()) == made and with_lengths(plan, (), tokenizer) == plan
    questions = [item.turns[0] for item in suite.items]
    for each in made.suites[:2]:
        assert all(
            item.turns[0].endswith(text) for item, text in zip(each.items, questions, strict=True)
        )
    for each in made.suites:
        for item in each.items:
            assert each.tokens - 8 < bundled_session.count_tokens(made.prompt(item)) <= each.tokens
    beginnings = {item.turns[0][:40] for item in made.suites[0].items}
    assert len(beginnings) == 3  # no prompt has the stories of another
    with pytest.raises(ValueError, match=r"has [\d,]+ tokens by itself; --lengths has 64"):
        with_lengths(plan, (64,), tokenizer)
    about = with_lengths(replace(plan, suites=(suite,)), (1000,), None).suites[0]
    assert all(3900 < len(item.turns[0]) < 4100 for item in about.items)


def test_the_stories_before_prompts_are_what_their_script_writes() -> None:
    assert STORIES.read_text(encoding="utf-8") == passages()


def test_numbers_by_length_are_those_of_its_tasks_and_are_a_figure_and_a_table() -> None:
    base = study_plan(items=4, repeats=1, temperatures=(0.0,))
    sums = base.suites[0]
    suites = tuple(replace(sums, name=f"sums {n}", tokens=n) for n in (512, 1024))
    plan = replace(base, suites=suites)
    rows = [
        replace(one, data=one.data | {"prompt_tokens": 500 + 500 * (one.task // 4)})
        for one in drawn_results(plan)
    ]
    report = reported(plan, rows)
    assert {(row.group, row.length) for row in report.lengths} == {
        *(("", 512), ("", 1024), ("small", 512), ("small", 1024), ("large", 512), ("large", 1024))
    }
    for row in report.lengths:
        here = [
            one.data
            for one in rows
            if one.lane == row.lane
            and plan.suites[plan.task(one.task).suite].tokens == row.length
            and row.group in ("", plan.item(plan.task(one.task)).category)
        ]
        tokens, steps, seconds, read = (
            sum(data[name] for data in here)
            for name in ("new_tokens", "steps", "wall_s", "prompt_tokens")
        )
        assert (row.runs, row.read) == (len(here), pytest.approx(read / len(here)))
        assert row.tokens_per_s.value == pytest.approx(tokens / seconds)
        if plan.lanes[row.lane].drafts:
            assert row.tau.value == pytest.approx(tokens / steps)
    section = length_section(report)
    assert section
    picture, table = section.blocks
    assert isinstance(picture, Picture) and isinstance(table, ReportTable)
    assert len(table.rows) == 2 * len(plan.lanes)
    captions = picture.plot.figure.to_plotly_json()["layout"]["annotations"]
    assert [each["text"] for each in captions] == ["<b>τ</b>", "<b>Tokens/s</b>"]
    assert [len(texts) for texts in panels_of(picture.plot).values()] == [8]
    assert len(picture.plot.data.rows) == 14  # none has no τ
    written = list(csv.DictReader(io.StringIO(csv_text(matrix_table(report)))))
    assert len(written) == len(report.lengths) and written[-1]["category"] == "large"
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
    assert Suite("s", ()).tokens == 0
