"""A plan that exists is valid; one that is not says why in one sentence, and a stored one comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from evaluation.study.plan import Models, Plan
from evaluation.study.sweep import MAX_DRAFT, MAX_RUNS, Case, Cell, Grid, cells, pairs_planned, runs_planned, sweep_plan
from mars_core import validation
from mars_core.types import DrafterConfig, ModelRef, TreeShape

MODELS = Models("bundled", ModelRef("a/target", "1"), ModelRef("a/draft", "2"))
CASES = (Case("2 + 2 =", "4"), Case("Tell me a story."))
GRID = Grid("mars", "theta", (0.84, 0.9), (3, 5))
SETTINGS: Mapping[str, Any] = {"temperatures": (0.0, 1.0), "repeats": 2, "seed": 7}


def planned(cases: tuple[Case, ...] = CASES, grid: Grid = GRID, **settings: Any) -> Plan:
    return sweep_plan(MODELS, cases, grid, **{**SETTINGS, **settings})


PLAN = planned()


def test_every_setting_is_run_for_every_prompt_and_repeat_beside_one_strict_run_for_each_k() -> None:
    assert len(cells(PLAN)) == 8 and pairs_planned(PLAN) == 32 and runs_planned(PLAN) == 8 * 6
    assert cells(PLAN)[:3] == (Cell(0.0, 3, 0.84), Cell(0.0, 3, 0.9), Cell(0.0, 5, 0.84))
    assert [lane.name for lane in PLAN.lanes[:3]] == ["strict", "mars(theta=0.84)", "mars(theta=0.9)"]
    assert [PLAN.baseline(lane) for lane in range(6)] == [None, 0, 0, None, 3, 3]
    assert len({PLAN.seed_of(PLAN.task(number)) for number in range(PLAN.tasks)}) == 4


def test_the_drafts_limit_is_the_engines() -> None:
    assert MAX_DRAFT == validation.MAX_DRAFT


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cases": ()}, "There is no prompt"),
        ({"cases": (Case("a"), Case(" "))}, "Prompt 2 is empty"),
        ({"rule": "strict", "parameter": "", "values": ()}, "'strict', which is the baseline"),
        ({"rule": "none", "parameter": "", "values": ()}, "'none', which has no drafts"),
        ({"rule": "vars"}, "'vars', which is unknown"),
        ({"parameter": "gap"}, "The parameter of rule mars is 'gap'; it must be one of theta."),
        ({"rule": "block"}, "it must be empty"),
        ({"others": {"theta": 0.9}}, "theta is varied and also fixed at 0.9"),
        ({"others": {"beta": 0.9}}, "Rule mars has no parameter beta"),
        ({"values": (0.9, 1.5)}, "theta is 1.5; rule mars takes 0 to 1."),
        ({"values": (math.nan,)}, "theta is nan"),
        ({"values": ()}, "The list of values of theta is empty"),
        ({"values": (0.9, 0.8, 0.9)}, "0.9 is listed twice in the values of theta"),
        ({"temperatures": ()}, "The list of temperatures is empty"),
        ({"temperatures": (-1.0,)}, "temperature is -1; it must be 0 to 100."),
        ({"ks": ()}, "The list of K is empty"),
        ({"ks": (0,)}, "K is 0; it must be 1 to 64."),
        ({"drafter": DrafterConfig("eagle3", tree=TreeShape())}, "K applies to chains only"),
        ({"drafter": DrafterConfig("none", k=0)}, "The drafter is none"),
        ({"repeats": 0}, "repeats is 0; it must be 1 to"),
        ({"repeats": 101}, "repeats is 101; it must be 1 to 100."),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**53}, "seed is"),
        ({"repeats": 100}, f"The sweep has 2,400 runs; it must be at most {MAX_RUNS:,}"),
    ],
)
def test_a_plan_that_cannot_be_run_says_why_in_one_sentence(change: dict[str, Any], words: str) -> None:
    change = dict(change)
    grid = {
        name: change.pop(name) for name in ("rule", "parameter", "values", "others", "ks", "drafter") if name in change
    }
    with pytest.raises(ValueError) as raised:
        planned(grid=replace(GRID, **grid), **change)
    assert words in str(raised.value) and str(raised.value).endswith(".") and "\n" not in str(raised.value)
