"""What a rule would keep follows from strict's runs; candidates and settings at equal τ."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from evaluation.advise.plans import calibrated
from evaluation.advise.predict import Rejection, StrictRuns, candidates, strict_runs
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig, Sampling, Trace
from training.demo.corpus import held_out

# 10 rejections; half of them are of the second-best token, with gaps of 0.1, 0.3 … 0.9 of z₁ = 10
RUNS = StrictRuns(
    tuple(Rejection(10.0, number / 10, bool(number % 2)) for number in range(10)),
    (0.8, 0.7, 0.6),
    230,
    100,
)


def test_a_prediction_counts_the_rejections_that_a_rule_would_relax() -> None:
    assert RUNS.share(RuleConfig("mars-gap", {"gap": 0.4})) == 0.2
    assert RUNS.share(RuleConfig("mars", {"theta": 0.96})) == 0.2
    assert RUNS.share(RuleConfig("random", {"probability": 0.4})) == 0.4
    assert RUNS.prediction(RuleConfig("mars-gap", {"gap": 0.4})).cost == pytest.approx(0.4 / 230)
    assert RUNS.gain(0) == 1 and RUNS.gain(1) == pytest.approx(4 / (1 + 0.8 + 0.56 + 0.336))
    assert RUNS.share_for(RUNS.gain(0.3)) == pytest.approx(0.3)
    for name in ("mars", "mars-gap", "random"):
        # up to one rejection, as a parameter has three digits
        assert RUNS.share(RUNS.setting(name, 0.3)) == pytest.approx(0.3, abs=0.11)


def test_candidates_go_from_strict_downward_in_cost_and_gain() -> None:
    every = candidates(RUNS, ("mars", "mars-gap"))
    costs, taus = ([getattr(each, name) for _, each in every] for name in ("cost", "tau"))
    assert costs == sorted(set(costs)) and taus == sorted(set(taus)) and taus[0] > RUNS.tau
    with pytest.raises(ValueError, match="'random'; it has no margin threshold"):
        candidates(RUNS, ("random",))
    with pytest.raises(ValueError, match="'typical'; it must be one of mars"):
        candidates(RUNS, ("typical",))


def test_each_rule_is_set_to_the_target_by_what_it_reaches() -> None:
    def tried(settings: Mapping[str, RuleConfig]) -> dict[str, float]:
        """Rules that gain more, or less, than is predicted."""
        factors = {"random": 0.9, "mars-gap": 1.1}
        return {
            name: RUNS.tau * (1 + factors[name] * (RUNS.gain(RUNS.share(each)) - 1))
            for name, each in settings.items()
        }

    names, target = ("mars-gap", "random"), 2.5
    settings, reached = calibrated(RUNS, names, target, target / RUNS.tau, tried)
    assert [each.name for each in settings] == list(names)
    assert reached[1] == pytest.approx(target, rel=0.01)
    assert reached[0] == pytest.approx(target, rel=0.05)  # five gaps only
    with pytest.raises(ValueError, match="is out of its reach"):
        calibrated(RUNS, names, 5.0, 5.0 / RUNS.tau, tried)


def decoded(session: Session, rule: RuleConfig, text: str) -> Trace:
    config = run_config(
        session.pair,
        prompt=PromptConfig(text),
        rule=rule,
        drafter=DrafterConfig("model", None, 5),
        sampling=Sampling(),
        max_new_tokens=60,
        seed=0,
    )
    run = session.start(config)
    try:
        for _ in run:
            pass
        return run.trace()
    finally:
        run.close()


def test_a_rule_relaxes_nothing_exactly_where_that_is_predicted(bundled_session: Session) -> None:
    outcomes = set()
    for item in held_out(4):
        strict = decoded(bundled_session, RuleConfig("strict"), item.question)
        runs = strict_runs([strict], ())
        assert runs.tau == pytest.approx(strict.summary.tau)
        for theta in (0.6, 0.98):
            rule = RuleConfig("mars", {"theta": theta})
            relaxed = decoded(bundled_session, rule, item.question).summary.relaxed > 0
            assert relaxed == (runs.share(rule) > 0)
            outcomes.add(relaxed)
    assert outcomes == {True, False}
