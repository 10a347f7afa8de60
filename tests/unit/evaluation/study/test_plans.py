"""A plan is valid, survives the store, and enumerates balanced tasks whose seeds never collide; one
that is not says why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.item import Item, Suite
from evaluation.plan.lane import Lane, with_placebos, with_sharpened
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan, read_plan
from evaluation.settings import StudySettings
from evaluation.study.check import check_models
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, TreeShape
from tests.unit.evaluation.saved import LANES, MODEL

NONE, STRICT, MARS = LANES
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
    models = Models("bundled", ModelRef("t", "1"), ModelRef("d"))
    return replace(Plan("try", models, suites, LANES, (0.0, 1.0), repeats=2), **changed)


def test_a_plan_survives_json() -> None:
    dynamic = {"theta": "0.9 - 0.1*min(1, entropy/2)", "where": "thinking"}
    rules = (RuleConfig("strict"), RuleConfig("typical"), RuleConfig("mars", dynamic))
    lanes = (*LANES, *(Lane(rule, TREE) for rule in rules))
    made = plan(lanes=with_placebos(lanes), stop=("\n",), thinking=False)
    assert made.prompt(made.suites[0].items[0]).thinking is False
    assert read_plan(json.loads(json.dumps(made.as_dict()))) == made


def test_a_plan_of_a_version_without_protected_tokens_protects_none() -> None:
    stored = plan().as_dict()
    del stored["processors"]["protect"]
    assert read_plan(stored).processors.protect == ()


def test_a_study_that_reads_no_classifier_goes_on_where_the_pair_has_got_one() -> None:
    models, ref = plan().models, ModelRef("bundled/classifier", "local:0")
    refs = {f"{each}_ref": getattr(models, each) for each in ("target", "draft", "head")}
    pair: Any = SimpleNamespace(classifier_ref=ref, **refs)
    check_models(plan(), pair)
    reading = plan(lanes=(*LANES, replace(MARS, rule=RuleConfig("judge"))))
    check_models(replace(reading, models=replace(models, classifier=ref)), pair)
    with pytest.raises(ValueError, match="planned with no model, but this is bundled/classifier"):
        check_models(reading, pair)


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
    lanes = (*LANES, Lane(RuleConfig("strict"), TREE), replace(MARS, drafter=TREE))
    made = plan(lanes=lanes)
    assert [made.baseline(lane) for lane in range(5)] == [1, None, 1, None, 3]
    assert made.none == 0
    assert plan(lanes=(STRICT, MARS)).none is None


def test_each_rule_that_relaxes_is_imitated_with_its_drafts() -> None:
    tree = [replace(lane, drafter=TREE) for lane in (STRICT, MARS)]
    made = plan(lanes=with_placebos((*LANES, *tree), 3))
    added = [(lane.name, lane.drafts) for lane in made.averaged.lanes[5:]]
    assert added == [
        ("placebo as mars(theta=0.9)", "model K=5"),
        ("placebo among the 2 best as mars(theta=0.9)", "model K=5"),
        ("placebo as mars(theta=0.9)", "eagle3 12/6/2"),
        ("placebo among the 2 best as mars(theta=0.9)", "eagle3 12/6/2"),
        ("always", "model K=5"),
        ("always", "eagle3 12/6/2"),
    ]
    assert [made.placebos(lane) for lane in range(5)] == [[], [], [5, 6, 7], [], [11, 12, 13]]
    assert [made.placebos(lane, ranked=True) for lane in (2, 4)] == [[8, 9, 10], [14, 15, 16]]
    assert [made.imitated(lane) for lane in (5, 10, 16)] == [2, 2, 4]
    assert made.draws[5:8] == ((5, 6, 7), (8, 9, 10), (11, 12, 13))
    assert with_placebos(made.lanes[17:]) == made.lanes[17:]
    assert with_placebos((NONE, STRICT)) == (NONE, STRICT)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"suites": ()}, "list of suites is empty"),
        ({"suites": (Suite("one", ()),)}, "no item"),
        ({"suites": (plan().suites[0], plan().suites[0])}, "Two suites are called 'one'"),
        ({"lanes": (NONE, MARS)}, "strict is not among the rules"),
        ({"lanes": (STRICT, STRICT)}, "Two lanes are the same"),
        (
            {"lanes": (STRICT, Lane(RuleConfig("mars"), DrafterConfig("server")))},
            "The drafter is 'server'; it must be 'server' on a server",
        ),
        ({"lanes": (STRICT, Lane(RuleConfig("mars"), TREE))}, "no strict lane with that drafter"),
        (
            {"lanes": (STRICT, Lane(RuleConfig("random"), MODEL, MARS.rule))},
            "random as mars.theta=0.9. imitates a rule that no lane with its drafter has",
        ),
        ({"temperatures": (1.0, 1.0)}, "is listed twice"),
        (
            {"lanes": with_sharpened(LANES, (0.25,))},
            r"sharpened\(scale=0.25\) lowers a temperature; each must be above 0",
        ),
        (
            {"lanes": with_sharpened(LANES, (1.0,)), "temperatures": (1.0,)},
            "scale of sharpened is 1; it must be 0.01 to 0.99",
        ),
        ({"loads": (4, 1), "batch": 4}, "batches are .4, 1.; each must be larger than the one"),
        ({"loads": (1, 300), "batch": 300}, "batch is 300; it must be 1 to 256"),
        ({"loads": (1, 4), "batch": 4, "alone": 1}, "time_alone is 1; with several batches"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        plan(**changed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"lengths": "128, 10"}, "lengths is 10; it must be a whole number from 64 to 16384"),
        ({"sharpened": "1"}, "sharpened is 1; it must be a number from 0.01 to 0.99"),
        ({"placebo_seeds": 65}, "placebo_seeds is 65; it must be a whole number from 1 to 64"),
        ({"rules": [3]}, "A value of rules is 3; it must be a text"),
    ],
)
def test_a_study_is_said_within_its_ranges(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StudySettings(**said)
    several = StudySettings(temperature="0, 0.4:0.8:0.2", sharpened="", rules="mars, none")  # type: ignore[arg-type]
    assert (several.temperature, several.sharpened) == ((0, 0.4, 0.6, 0.8), ())
    assert several.rules == ("mars", "none")


def test_a_plan_of_another_version_is_refused() -> None:
    stored = plan().as_dict()
    without = {name: value for name, value in stored.items() if name != "lanes"}
    for other in ({**stored, "colour": "red"}, without):
        with pytest.raises(ValueError, match="another version"):
            read_plan(other)
