"""The sweep as a plain generator over a small real pair, its form, table and chart, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from evaluation.study.pairs import Sweep, load_sweep
from evaluation.study.points import Cost, points
from evaluation.study.sweep import Case, cells, values_of
from mars_core.models import ModelPool, PairSpec
from mars_core.rules import RULES
from mars_core.types import Status
from storage import RunStore, Search, Source, StorageError
from tests.unit.ui.places import lose_device, said
from ui.jobs.services import Services
from ui.tabs.study.lists import estimated, numbers
from ui.tabs.sweep.form import (
    SweepForm,
    examples,
    other_parameters,
    read_cases,
    suggestion,
    write_cases,
)
from ui.tabs.sweep.panels import pairs_html, settings_html
from ui.tabs.sweep.run import SweepFrame, closing_strip, run

FORM = SweepForm(
    prompts="Once upon a time => the\n2 + 2 =", pair="bundled", rule="mars", parameter="theta", values="0.1, 0.9",
    temperatures="1", ks="3", max_new_tokens=16, seed=3,
)  # fmt: skip


def reopened(services: Services, sweep_id: str) -> SweepFrame:
    sweep = load_sweep(services.store, sweep_id)
    return SweepFrame(closing_strip(sweep), sweep)


def swept(frames: list[SweepFrame]) -> Sweep:
    return next(frame.shown for frame in reversed(frames) if frame.shown)


@dataclass(frozen=True)
class Ran:
    services: Services
    frames: list[SweepFrame]


@pytest.fixture(scope="module")
def ran(pool: ModelPool, spec: PairSpec, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """The sweep of FORM."""
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('sweep') / 'runs.db'}") as store:
        services = Services(pool, store, (spec,))
        yield Ran(services, list(run(services, FORM, "visitor")))


def test_a_sweep_is_a_study_of_every_setting_on_every_prompt(ran: Ran) -> None:
    services, frames = ran.services, ran.frames
    state, words = said(frames[-1])
    assert state == "done", words
    sweep = swept(frames)
    assert words.startswith("All 4 comparisons ran. With fewer than 5 pairs a setting no fastest")
    assert len(sweep.pairs) == 4
    found = points(sweep.plan, sweep.pairs)
    assert [point.n for point in found] == [2, 2] and [point.scored for point in found] == [1, 1]
    assert len({pair.comparison for pair in sweep.pairs}) == 2  # one a prompt, with all lanes
    for pair in sweep.pairs:
        stored = services.store.load(pair.comparison)
        assert (stored.source, len(stored.runs)) == (Source.SWEEP, 3)
        strict, mars = (next(run for run in stored.runs if run.id == run_id).trace for run_id in pair.runs)
        assert (strict.config.rule.name, mars.config.rule.name) == ("strict", "mars")
        assert mars.config.rule.parameters == {"theta": pair.value}
        assert strict.config.seed == mars.config.seed == 3 + pair.case
        assert (pair.strict_tokens, pair.tokens) == (len(strict.tokens), len(mars.tokens))
        assert pair.tokens_per_s == pytest.approx(mars.summary.tokens_per_s)
    assert services.store.find(Search(source=Source.SWEEP)).total == 2
    (study,) = services.store.studies(sweeps=True)
    assert (study.id, study.tasks, study.done, services.store.studies()) == (sweep.id, 2, 2, ())
    assert reopened(services, sweep.id) == frames[-1]


def test_the_page_shows_every_pair_that_ended(ran: Ran) -> None:
    frames = ran.frames
    seen = [len(frame.shown.pairs) for frame in frames if frame.shown]
    assert seen[0] == 0 and sorted(seen) == seen and {0, 2, 4} <= set(seen)  # strict may be the last of a prompt
    progress = [frame.strip.progress for frame in frames if said(frame)[0] == "running"]
    assert progress == sorted(progress) and progress[-1] <= 1
    assert any(frame.strip.side.endswith("to go") for frame in frames)


@pytest.mark.parametrize("end", ["stop", "close", "kill"])
def test_a_stop_a_closed_tab_or_a_killed_process_leaves_the_pairs_that_ended(services: Services, end: str) -> None:
    frames = run(services, replace(FORM, max_new_tokens=120), "visitor")
    shown = next(frame.shown for frame in frames if frame.shown and len(frame.shown.pairs) == 2)
    if end == "stop":
        services.stops.request("visitor")
        last = list(frames)[-1]
        assert said(last)[1].startswith("Stopped after 2 of 4 comparisons; what ended is stored")
        assert said(reopened(services, shown.id)) == said(last)
        sweep = load_sweep(services.store, shown.id)
        assert (sweep.status, len(sweep.pairs)) == (Status.CANCELLED, 2)
    else:
        next(frames)
    if end == "close":
        frames.close()  # type: ignore[attr-defined]
    assert end == "kill" or not services.store.claims(shown.id)
    state, words = said(reopened(services, shown.id))
    assert state == "cancelled" and words.startswith("Stopped after 2 of 4 comparisons")
    statuses = [status for row in services.store.comparisons()["status"] for status in row]
    assert set(statuses) == {Status.COMPLETED}  # not the run under way
    for unknown in ("", "0" * 32, "<img onerror>"):
        with pytest.raises((ValueError, StorageError)):
            reopened(services, unknown)


def test_a_run_that_breaks_ends_the_sweep_with_its_reason(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_device(monkeypatch, 30)
    frames = list(run(services, FORM, "visitor"))
    state, words = said(frames[-1])
    assert state == "failed" and "The device is gone; " in words and "stack" not in words
    assert said(reopened(services, swept(frames).id)) == (state, words)


def test_a_tree_has_no_k_and_a_rule_without_parameters_no_values(services: Services, head: PairSpec) -> None:
    form = replace(
        FORM, prompts="Once", pair="eagle", drafter="eagle3", tree_tokens=6, tree_depth=3, tree_top_k=2, ks="no matter"
    )
    place = replace(services, catalog=(head,))
    frames = list(run(place, form, "visitor"))
    assert said(frames[-1])[0] == "done", said(frames[-1])
    shown = swept(frames)
    assert [cell.k for cell in cells(shown.plan)] == [None, None]
    assert reopened(services, shown.id) == frames[-1]
    assert "<td>tree of 6</td>" in settings_html(shown, Cost.TV)
    chain = list(run(place, replace(form, shape="chain", ks="3", rule="block", values=""), "visitor"))
    assert said(chain[-1])[0] == "done" and "Block verification" in settings_html(swept(chain), Cost.TV)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompts": " \n"}, "There is no prompt"), ({"prompts": "2 + 2 = =>"}, "nothing after =>"),
        ({"values": "0.9, x"}, "'x' among the θ is not a number"), ({"values": "0.9:0.8:0.1"}, "The range 0.9:0.8:0.1 of θ"),
        ({"values": "0:1:0.0001"}, "The range 0:1:0.0001 of θ"), ({"values": "2"}, "theta is 2; rule mars takes 0 to 1."),
        ({"values": ""}, "The list of values of theta is empty"), ({"ks": "2.5"}, "K is 2.5; it must be a whole number."),
        ({"ks": "100"}, "K is 100"), ({"ks": "nan"}, "'nan' among the K"), ({"temperatures": "-1"}, "temperature is -1"),
        ({"rule": "vars"}, "The rule is 'vars'"), ({"rule": "strict"}, "is the baseline"),
        ({"parameter": "gap"}, "The parameter of rule mars is 'gap'"), ({"others": "theta"}, "'theta' is not a parameter"),
        ({"others": "beta = 1"}, "no parameter beta"), ({"repeats": None}, "repeats is empty"),
        ({"repeats": 100, "ks": "1,2,3,4,5"}, "The sweep has 3,000 runs; it must be at most 2,000"),
        ({"max_new_tokens": 4096}, "Prompt 1 has"), ({"top_p": 0}, "top_p is 0"),
        ({"drafter": "none"}, "The drafter is none"), ({"drafter": "eagle3"}, "has no EAGLE-3 head"),
        ({"drafter": "ngram", "rule": "ensemble", "parameter": "weight"}, "needs the drafter's probabilities"),
        ({"pair": "custom", "own_target": "/nowhere"}, "/nowhere"),
    ],
)  # fmt: skip
def test_a_bad_value_gets_one_sentence_and_saves_nothing(
    services: Services, change: dict[str, Any], words: str
) -> None:
    state, sentence = said(list(run(services, replace(FORM, **change), "visitor"))[-1])
    assert state == "failed" and words in sentence and sentence.endswith(".") and "\n" not in sentence
    assert services.store.count() == 0 and services.store.studies(sweeps=True) == ()


def test_prompts_are_lines_or_blocks_with_answers() -> None:
    assert read_cases("a\n\n b => 2 \nc => d => 3") == (Case("a"), Case("b", "2"), Case("c => d", "3"))
    assert read_cases("a\nb\n---\nc\n => 4\n---\n\n") == (Case("a\nb"), Case("c", "4"))
    for cases in ((Case("a"), Case("b", "2")), (Case("a\nb"), Case("c", "4"))):
        assert read_cases(write_cases(cases)) == cases
    first, second = examples(0), examples(1)
    assert len(set(first + second)) == 16 and all(case.reference.isdecimal() for case in first) and examples(10**6)
    assert read_cases(write_cases(first)) == first


def test_suggested_values_are_the_rules_own_and_the_estimate_counts_what_is_run(services: Services) -> None:
    assert numbers("0.8:0.9:0.05, 1; 2", "θ") == (0.8, 0.85, 0.9, 1.0, 2.0) and numbers("", "θ") == ()
    assert estimated(services, replace(FORM, ks="3 5", repeats=2)) == (
        "2 prompts × 2 repeats × 2 K × 2 values = 16 comparisons with strict, 24 runs, at most 384 new tokens."
    )
    for rule, parameter in [(name, each) for name, found in RULES.items() for each in found.parameters]:
        others = other_parameters(rule, parameter.name)
        form = replace(FORM, rule=rule, parameter=parameter.name, values=suggestion(parameter), others=others)
        plan = form.plan(services.catalog[0])
        assert len(values_of(plan)) >= 2 and parameter.default in values_of(plan)


def test_the_table_has_every_setting_and_its_pairs_lead_to_history(ran: Ran) -> None:
    sweep = swept(ran.frames)
    head, *rows = re.findall("<tr.*?</tr>", settings_html(sweep, Cost.DIFFER), re.DOTALL)
    assert [re.search(r"<button[^>]*>([\d.]+)<", row)[1] for row in rows] == ["0.1", "0.9"]  # type: ignore[index]
    assert {len(re.findall("<t[dh]", row)) for row in rows} == {head.count("<th")}
    assert not any('class="best"' in row for row in rows)  # two pairs a setting are too few
    for pair in sweep.pairs:
        shown = pairs_html(sweep, cells(sweep.plan).index(pair.cell))
        assert f'{{"comparison": "{pair.comparison}", "runs": ["{pair.runs[0]}", "{pair.runs[1]}"]}}' in shown
