"""Tokens that strict rejected are relaxed one at a time in its own text, and serve every rule."""

from __future__ import annotations

import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import replace
from functools import cache

import pytest
import torch

from evaluation.advise.recorded import decides, is_recorded, relaxes
from evaluation.plan.lane import Lane
from evaluation.plan.plan import Plan
from evaluation.report.files import markdown_of
from evaluation.report.measure import measure
from evaluation.study.follow import intervene
from mars_core.counterfactual import rejected_tokens, relaxed_alone
from mars_core.models import Pair
from mars_core.session import Session
from mars_core.types import DrafterConfig, DraftMode, Outcome, RuleConfig, Sampling, Token, Trace
from mars_playground.__main__ import main as mars
from storage import RunStore
from tests.live_pairs import random_pair, traced
from tests.unit.evaluation.study.test_follow import by_hand, check_meeting, mean
from tests.unit.evaluation.study.working import STRICT, small_plan, study_in

DRAFTER = STRICT.drafter
SAMPLED = replace(DRAFTER, mode=DraftMode.SAMPLED)
RULES = {
    "mars": {"theta": 0.5, "where": "entropy > 1"},
    "mars-gap": {"gap": "3 if position < 20 else 1"},
    "mars-algorithm1": {"theta": 0.5},
    "lenience": {"lenience": 0.05},
}


def planned(session: Session) -> Plan:
    mars, lenient = RuleConfig("mars", {"theta": 0.864}), RuleConfig("lenience", RULES["lenience"])
    rules = Lane(mars, DRAFTER), Lane(lenient, DRAFTER)
    lanes = (STRICT, *rules, Lane(RuleConfig("strict"), SAMPLED))
    return small_plan(session, lanes=lanes, temperatures=(0.0, 1.0), batch=4, interventions=100)


@pytest.fixture(scope="module")
def resumed(
    session: Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunStore, str]]:
    """A study that was resumed to intervene, and what that said."""
    url = f"sqlite:///{study_in(tmp_path_factory.mktemp('done'), planned(session), session)}"
    with RunStore(url) as store, pytest.MonkeyPatch.context() as patch:
        (head,) = store.studies()
        assert not measure(store, head.id).interventions
        patch.setattr("evaluation.study.launch.open_session", lambda *_: session)
        with redirect_stderr(io.StringIO()) as said:
            assert mars(["eval", "resume", head.id, "--db", url, "--quiet"]) == 0
        yield store, said.getvalue()


@pytest.fixture
def store(resumed: tuple[RunStore, str]) -> RunStore:
    return resumed[0]


@pytest.fixture
def study(store: RunStore) -> str:
    return store.studies()[0].id


@torch.inference_mode()
def test_each_text_differs_from_that_of_strict_by_one_relaxed_token(
    store: RunStore, session: Session, study: str
) -> None:
    plan = planned(session)
    checked = Counter[float]()
    for row in store.results(study):
        saved, task = store.counterfactuals(row.run_ids), plan.task(row.task)
        if row.lane != 0 and not (row.lane == 3 and task.temperature == 0):
            assert not saved
            continue
        for run_id, run in store.traces(row.run_ids).items():
            rejected = rejected_tokens(run)
            assert [each.position for each in saved.get(run_id, ())] == sorted(rejected)
            for found in saved.get(run_id, ()):
                token, at = rejected[found.position], found.position
                alone = relaxed_alone(run, token, session.pair.eos_ids)
                ids, ln = by_hand(session, alone, at + 1)
                assert ids[at] == token.id != run.token_ids[at]
                assert found.relaxed_logprob == pytest.approx(mean(ln[at:]), abs=1e-4)
                own = [each.logprob for each in run.tokens[at:]]
                assert found.strict_logprob == pytest.approx(mean(own), abs=1e-6)
                check_meeting(found, run, run.token_ids, ids)
                checked[task.temperature] += 1
    assert min(checked[0.0], checked[1.0]) >= 10, checked


def test_resumed_the_command_intervenes_once(
    resumed: tuple[RunStore, str], session: Session, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, said = resumed
    decoded = re.search(r"([1-9]\d*) rejected tokens were relaxed alone; 0 failed", said)
    monkeypatch.setattr(session.pair.target, "forward", None)
    *_, again = intervene(store, study, session, 3)
    assert (again.tokens, again.done) == (0, again.runs)
    ids = [run_id for row in store.results(study) for run_id in row.run_ids]
    saved = sum(map(len, store.counterfactuals(ids).values()))
    assert decoded is not None and int(decoded[1]) == saved


PROMPTS = ("once", "a day", "the red bird")


@cache
def pair() -> Pair:
    return random_pair(noise=0.05, eos=frozenset())


@cache
def written(rule: str, temperature: float, seed: int) -> Trace:
    options = {"prompt": PROMPTS[seed], "rule": rule, "seed": seed, "new": 40}
    drafter, sampling = DrafterConfig("model", k=4), Sampling(temperature)
    return traced(pair(), drafter, sampling, **options, **RULES.get(rule, {}))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", RULES)
def test_a_rule_relaxes_first_what_is_read_from_the_text_of_strict(
    name: str, temperature: float
) -> None:
    rule = RuleConfig(name, RULES[name])
    if name not in ("mars", "mars-gap"):
        assert not is_recorded(rule)
        return
    seen = Counter[str]()
    for seed in range(len(PROMPTS)):
        strict = written("strict", temperature, seed)
        relaxed = written(name, temperature, seed)
        happened = [t.position for t in relaxed.tokens if t.outcome is Outcome.RELAXED]
        first = min(happened, default=math.inf)
        for position, token in rejected_tokens(strict).items():
            if position <= first:
                assert relaxes(rule, token) is (position == first)
                assert decides(rule, token) or position != first
                seen["relaxed" if position == first else "not"] += 1
    assert seen["relaxed"]


def test_a_report_compares_a_rule_with_the_other_rejections_of_the_text(
    store: RunStore, session: Session, study: str
) -> None:
    plan, report, compared = planned(session), measure(store, study), 0
    for temperature in plan.temperatures:
        of_rule, of_others, near, every = (list[float]() for _ in range(4))
        items = defaultdict[int, list[tuple[float, Token]]](list)
        for row in store.results(study):
            task = plan.task(row.task)
            if row.lane or task.temperature != temperature:
                continue
            traces = store.traces(row.run_ids)
            for run_id, tokens in store.counterfactuals(row.run_ids).items():
                rejected = rejected_tokens(traces[run_id])
                items[plan.position(task)] += [
                    (each.relaxed_logprob - each.strict_logprob, rejected[each.position])
                    for each in tokens
                ]
        for some in items.values():
            marked = [
                (value, token.rank, relaxes(plan.lanes[1].rule, token)) for value, token in some
            ]
            inside = [value for value, _, mark in marked if mark]
            outside = [value for value, _, mark in marked if not mark]
            ranked = [value for value, rank, mark in marked if rank <= 2 and not mark]
            every.append(mean([value for value, *_ in marked]))
            of_rule += [mean(inside)] if inside else []
            of_others += [mean(inside) - mean(outside)] if inside and outside else []
            near += [mean(inside) - mean(ranked)] if inside and ranked else []
        rows = {
            f"{row.title} − {row.beside}".removesuffix(" − "): row
            for row in report.interventions
            if (row.lane, row.temperature) == (0, temperature)
        }
        assert rows["all"].tokens == sum(map(len, items.values()))
        assert rows["all"].logprob.value == pytest.approx(mean(every))
        assert "all − others" not in rows  # there are none
        title = plan.lanes[1].title
        rule = rows[title]
        assert rule.rule == 1 and rule.logprob.value == pytest.approx(mean(of_rule))
        assert rows[f"{title} − others"].logprob.value == pytest.approx(mean(of_others))
        if near:
            beside = rows[f"{title} − others of its ranks"]
            assert beside.logprob.value == pytest.approx(mean(near))
        compared += len(near)
        assert plan.lanes[2].title not in rows
        ranks = [row.tokens for row in rows.values() if row.title[:4] == "rank" and not row.beside]
        assert sum(ranks) == rows["all"].tokens
    assert compared
    assert "One relaxed token in strict's own text" in markdown_of(report)
