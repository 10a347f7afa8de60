"""A plan is valid, survives the store, and enumerates balanced tasks whose seeds never collide; one
that is not says why."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from evaluation.study.plan import Lane, Models, Plan, read_plan
from evaluation.study.sweep import (
    MAX_DRAFT,
    MAX_RUNS,
    Case,
    Cell,
    Grid,
    cells,
    pairs_planned,
    runs_planned,
    sweep_plan,
)
from evaluation.suites.item import Item, Suite
from mars_core import validation
from mars_core.types import DrafterConfig, DraftMode, ModelRef, RuleConfig, TreeShape

NONE = Lane(RuleConfig("none"), DrafterConfig("none"))
STRICT = Lane(RuleConfig("strict"), DrafterConfig())
MARS = Lane(RuleConfig("mars", {"theta": 0.9}), DrafterConfig())
TREE = DrafterConfig("eagle3", None, 5, tree=TreeShape(12, 6, 2))


def plan(**changed: Any) -> Plan:
    suites = (
        Suite(
            "one",
            (
                Item("a", ("2 + 2?",), ("4",)),
                Item("b", ("hi", "and then?"), metrics=("bleu,none",)),
            ),
            metrics=("contains,none",),
        ),
        Suite("two", (Item("c", ("ho\ud800",)),)),
    )
    given: dict[str, Any] = {
        "name": "try",
        "models": Models("bundled", ModelRef("t", "1"), ModelRef("d")),
        "suites": suites,
        "lanes": (NONE, STRICT, MARS),
        "temperatures": (0.0, 1.0),
        "repeats": 2,
    }
    return Plan(**given | changed)


def test_a_plan_survives_json() -> None:
    lanes = (
        NONE,
        STRICT,
        MARS,
        Lane(RuleConfig("strict"), TREE),
        Lane(RuleConfig("typical"), TREE),
    )
    made = plan(lanes=lanes, stop=("\n",), thinking=False)
    assert made.prompt(made.suites[0].items[0]).thinking is False
    assert read_plan(json.loads(json.dumps(made.as_dict()))) == made


def test_a_study_that_is_stopped_halfway_has_every_temperature_and_item() -> None:
    made = plan()
    tasks = [made.task(number) for number in range(made.tasks)]
    assert made.tasks == len(set(tasks)) == 3 * 2 * 2
    half = Counter((task.temperature, made.item(task).id) for task in tasks[:6])
    assert half == Counter((temperature, item) for temperature in (0.0, 1.0) for item in "abc")


def test_no_two_items_or_repeats_share_a_seed_and_all_temperatures_do() -> None:
    made = plan(seed=7)
    seeds: dict[int, set[tuple[int, int, int]]] = {}
    for number in range(made.tasks):
        task = made.task(number)
        seeds.setdefault(made.seed_of(task), set()).add((task.suite, task.item, task.repeat))
    assert sorted(seeds) == list(range(7, 7 + 6))
    assert all(len(owners) == 1 for owners in seeds.values())


def test_the_baseline_has_the_same_drafter() -> None:
    lanes = (
        NONE,
        STRICT,
        MARS,
        Lane(RuleConfig("strict"), TREE),
        Lane(RuleConfig("mars", {"theta": 0.9}), TREE),
    )
    made = plan(lanes=lanes)
    assert [made.baseline(lane) for lane in range(5)] == [1, None, 1, None, 3]
    assert made.none == 0
    assert plan(lanes=(STRICT, MARS)).none is None


def test_names_tell_lanes_apart() -> None:
    sampled = DrafterConfig(mode=DraftMode.SAMPLED)
    lanes = (
        NONE,
        STRICT,
        MARS,
        Lane(RuleConfig("strict"), TREE),
        Lane(RuleConfig("mars", {"theta": 0.84}), sampled),
    )
    assert [lane.name for lane in lanes] == [
        "none",
        "strict",
        "mars(theta=0.9)",
        "strict",
        "mars(theta=0.84)",
    ]
    assert [lane.drafts for lane in lanes] == [
        "",
        "model K=5",
        "model K=5",
        "eagle3 12/6/2",
        "model K=5 sampled",
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"suites": ()}, "list of suites is empty"),
        ({"suites": (Suite("one", ()),)}, "no item"),
        ({"suites": (plan().suites[0], plan().suites[0])}, "Two suites are called 'one'"),
        ({"lanes": (NONE, MARS)}, "strict is not among the rules"),
        ({"lanes": (STRICT, STRICT)}, "Two lanes are the same"),
        ({"lanes": (STRICT,)}, "lanes is 1; it must be 2 to 64"),
        (
            {"lanes": (STRICT, Lane(RuleConfig("mars"), DrafterConfig("server")))},
            "The drafter is 'server'; it must be 'server' on a server",
        ),
        ({"lanes": (STRICT, Lane(RuleConfig("mars"), TREE))}, "no strict lane with that drafter"),
        ({"lanes": (STRICT, Lane(RuleConfig("wish"), DrafterConfig()))}, "'wish'"),
        ({"lanes": (STRICT, Lane(RuleConfig("mars", {"theta": 3}), DrafterConfig()))}, "theta"),
        ({"margin": 0.2}, "margin is 0.2; it must be 0.5 to 1"),
        ({"temperatures": ()}, "temperatures is empty"),
        ({"temperatures": (1.0, 1.0)}, "is listed twice"),
        ({"temperatures": (float("nan"),)}, "temperature is nan"),
        ({"repeats": 0}, "repeats is 0; it must be 1 to 1,000"),
        ({"seed": -1}, "seed is -1"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        plan(**changed)
    assert "\n" not in str(caught.value)


def test_a_plan_of_another_version_is_refused() -> None:
    stored = plan().as_dict()
    with pytest.raises(ValueError, match="another version"):
        read_plan({**stored, "colour": "red"})
    with pytest.raises(ValueError, match="another version"):
        read_plan({name: value for name, value in stored.items() if name != "lanes"})


MODELS = Models("bundled", ModelRef("a/target", "1"), ModelRef("a/draft", "2"))
CASES = (Case("2 + 2 =", "4"), Case("Tell me a story."))
GRID = Grid("mars", "theta", (0.84, 0.9), (3, 5))
SETTINGS: Mapping[str, Any] = {"temperatures": (0.0, 1.0), "repeats": 2, "seed": 7}


def planned(cases: tuple[Case, ...] = CASES, grid: Grid = GRID, **settings: Any) -> Plan:
    return sweep_plan(MODELS, cases, grid, **{**SETTINGS, **settings})


PLAN = planned()


def test_every_setting_is_run_for_every_prompt_and_repeat_beside_one_strict_run_for_each_k() -> (
    None
):
    assert len(cells(PLAN)) == 8 and pairs_planned(PLAN) == 32 and runs_planned(PLAN) == 8 * 6
    assert cells(PLAN)[:3] == (Cell(0.0, 3, 0.84), Cell(0.0, 3, 0.9), Cell(0.0, 5, 0.84))
    assert [lane.name for lane in PLAN.lanes[:3]] == [
        "strict",
        "mars(theta=0.84)",
        "mars(theta=0.9)",
    ]
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
        ({"temperatures": (-1.0,)}, "temperature is -1; it must be 0 to 100."),
        ({"ks": ()}, "The list of K is empty"),
        ({"ks": (0,)}, "K is 0; it must be 1 to 64."),
        ({"drafter": DrafterConfig("eagle3", tree=TreeShape())}, "K applies to chains only"),
        ({"drafter": DrafterConfig("none", k=0)}, "The drafter is none"),
        ({"repeats": 101}, "repeats is 101; it must be 1 to 100."),
        ({"seed": 2**53}, "seed is"),
        ({"repeats": 100}, f"The sweep has 2,400 runs; it must be at most {MAX_RUNS:,}"),
    ],
)
def test_a_plan_that_cannot_be_run_says_why_in_one_sentence(
    change: dict[str, Any], words: str
) -> None:
    change = dict(change)
    names = {field.name for field in fields(Grid)} & change.keys()
    grid = {name: change.pop(name) for name in names}
    with pytest.raises(ValueError) as raised:
        planned(grid=replace(GRID, **grid), **change)
    assert (
        words in str(raised.value)
        and str(raised.value).endswith(".")
        and "\n" not in str(raised.value)
    )
