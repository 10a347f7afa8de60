"""The suites of the bundled pair."""

from __future__ import annotations

from evaluation.scoring.metrics import scores
from evaluation.suites.read import read_suite
from mars_core.demo.corpus import held_out


def test_arithmetic_asks_the_held_out_problems_and_their_solutions_are_right() -> None:
    suite = read_suite("demo_arithmetic")
    assert [item.turns[0] for item in suite.items] == [problem.question for problem in held_out()]
    for item, problem in zip(suite.items, held_out(), strict=True):
        assert set(scores(suite, item, [problem.solution], execute_code=False).values()) == {1.0}
        assert set(scores(suite, item, [f"#### {problem.answer + 1}"], execute_code=False).values()) == {0.0}


def test_stories_want_all_that_is_asked_for() -> None:
    suite = read_suite("demo_stories")
    assert len({item.turns for item in suite.items}) == len(suite.items) > 200
    item = next(item for item in suite.items if item.turns[0] == "A story about Hana in a village, please.")
    assert item.references == ("Hana", "village")
    for text, right in (("Hana left the village.", 1.0), ("Hana left.", 0.0), ("Hanako saw villages.", 0.0), ("", 0.0)):
        assert scores(suite, item, [text], execute_code=False) == {"contains,all": right}


def test_story_that_goes_on_need_only_name_its_hero() -> None:
    suite = read_suite("demo_stories")
    going_on = [item for item in suite.items if item.turns[0].startswith("Continue")]
    assert going_on and all(len(item.references) == 1 for item in going_on)
