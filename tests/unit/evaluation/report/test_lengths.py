"""Prompts of a study by length have the length that was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.plan.lengths import STORIES, with_lengths
from evaluation.plan.plan import read_plan
from evaluation.suites.read import read_suite
from mars_core.session import Session
from tests.unit.evaluation.report.drawn import study_plan
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
