"""A plan that exists is valid; one that is not says why in one sentence, and a stored one comes back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from evaluation.sweeps.plan import LONGEST_DRAFT, MOST_RUNS, Case, Plan, read_plan
from mars_core import validation
from mars_core.types import DrafterConfig, DraftMode, ModelRef, TreeShape

PLAN = Plan(
    cases=(Case("2 + 2 =", "4"), Case("Tell me a story.")), rule="mars", parameter="theta", values=(0.84, 0.9),
    temperatures=(0.0, 1.0), ks=(3, 5), repeats=2, seed=7,
)  # fmt: skip


def test_every_setting_is_run_for_every_prompt_and_repeat() -> None:
    assert len(PLAN.cells) == 8 and PLAN.comparisons == 32 and PLAN.runs == 64
    assert len({PLAN.seed_of(repeat, case) for repeat in range(2) for case in range(2)}) == 4


def test_the_drafts_limit_is_the_engines() -> None:
    assert LONGEST_DRAFT == validation.LONGEST_DRAFT


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        replace(PLAN, drafter=DrafterConfig("eagle3", ModelRef("a/b", "c"), tree=TreeShape(12, 4, 3)), ks=()),
        replace(PLAN, drafter=DrafterConfig("model", mode=DraftMode.SAMPLED), stop=("###",), system="Be brief."),
        replace(PLAN, rule="block", parameter="", values=()),
        replace(PLAN, rule="fly", parameter="window", values=(1.0, 5.0), others={"entropy": 0.2}),
    ],
)
def test_a_stored_plan_comes_back(plan: Plan) -> None:
    assert read_plan(json.loads(json.dumps(plan.as_dict()))) == plan


@pytest.mark.parametrize("broken", [{}, {"cases": []}, PLAN.as_dict() | {"flux": 1}])
def test_a_plan_of_another_version_is_refused_in_one_sentence(broken: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="saved by another version"):
        read_plan(broken)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cases": ()}, "There is no prompt"),
        ({"cases": (Case("a"), Case(" "))}, "Prompt 2 is empty"),
        ({"rule": "strict", "parameter": "", "values": ()}, "'strict', which is what every other rule is held against"),
        ({"rule": "none", "parameter": "", "values": ()}, "'none', which takes no drafts"),
        ({"rule": "vars"}, "'vars', which is not known"),
        ({"parameter": "gap"}, "The parameter of rule mars is 'gap'; it must be one of theta."),
        ({"rule": "block"}, "it must be empty"),
        ({"others": {"theta": 0.9}}, "theta is varied and also held at 0.9"),
        ({"others": {"beta": 0.9}}, "Rule mars has no parameter beta"),
        ({"values": (0.9, 1.5)}, "theta is 1.5; rule mars takes 0 to 1."),
        ({"values": (math.nan,)}, "theta is nan"),
        ({"values": ()}, "The list of values of theta is empty"),
        ({"values": (0.9, 0.8, 0.9)}, "0.9 stands twice among the values of theta"),
        ({"temperatures": ()}, "The list of temperatures is empty"),
        ({"temperatures": (-1.0,)}, "temperature is -1; it must be 0 to 100."),
        ({"ks": ()}, "The list of K is empty"),
        ({"ks": (0,)}, "K is 0; it must be 1 to 64."),
        ({"drafter": DrafterConfig("eagle3", tree=TreeShape())}, "a tree has no K"),
        ({"drafter": DrafterConfig("none", k=0)}, "The drafter is none"),
        ({"repeats": 0}, "repeats is 0; it must be 1 to 100."),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**53}, "seed is"),
        ({"repeats": 100}, f"The sweep has 3,200 runs; it must be at most {MOST_RUNS:,}"),
    ],
)
def test_a_plan_that_cannot_be_run_says_why_in_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        replace(PLAN, **change)
    assert words in str(raised.value) and str(raised.value).endswith(".") and "\n" not in str(raised.value)
