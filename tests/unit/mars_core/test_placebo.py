"""The placebo relaxes as many rejections of a text as a rule did, no more and no fewer unless the
text ends first, at places that are drawn without replacement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from scipy.stats import chisquare

from evaluation.plan.lane import Lane
from evaluation.study.placebo import placebo_of
from mars_core.models import Pair
from mars_core.rules.placebo import lot
from mars_core.types import (
    DraftMode,
    Outcome,
    RuleConfig,
    RunConfig,
    Sampling,
    Trace,
)
from tests.live_pairs import DRAFTS, config_for, decoded, ready_pair

CASES = [("greedy chain", 0.0), ("coupled chain", 1.0), ("sampled chain", 1.0), ("tree", 1.0)]
NEW = 30


@pytest.fixture(scope="module")
def pair() -> Pair:
    return ready_pair()


def config_of(
    pair: Pair, name: str, temperature: float, relaxed: int, of: int, draw: int, best: int = 0
) -> RunConfig:
    options = {"relaxed": relaxed, "of": of, "draw": draw, "best": best, "rule": "placebo"}
    return config_for(pair, DRAFTS[name], Sampling(temperature), seed=3, new=NEW, **options)


def rejections(trace: Trace, best: int) -> Iterator[bool]:
    """Whether each eligible rejection of the text was relaxed, by what the trace has of them."""
    for step in trace.steps:
        for token in step.tokens:
            near = (token.id1, token.id2)[:best]
            if token.outcome is Outcome.RELAXED:
                assert not best or token.id in near
                yield True
            elif token.outcome is Outcome.RECOVERED:
                siblings = [node for node in step.nodes if node.parent == token.parent]
                if any(node.id in near or not best for node in siblings):
                    yield False


@pytest.mark.parametrize(("name", "temperature"), CASES)
@pytest.mark.parametrize("best", [0, 2])
def test_it_relaxes_as_many_rejections_as_it_is_due_unless_the_text_ends_first(
    pair: Pair, name: str, temperature: float, best: int
) -> None:
    """Those with the drawn numbers, in the order of the text; a probability would relax as many in
    the mean."""
    seen = Counter[str]()
    for relaxed, of, draw in ((0, 6, 1), (1, 3, 2), (3, 3, 3), (4, 7, 5), (9, 400, 6)):
        trace = decoded(pair, config_of(pair, name, temperature, relaxed, of, draw, best))
        happened = [*rejections(trace, best)]
        values = {"relaxed": relaxed, "of": of, "draw": draw}
        drawn = [int(lot(values, number)) % 2 == 1 for number in range(max(of, len(happened)))]
        assert sum(drawn) == relaxed and not any(drawn[of:])
        assert happened == drawn[: len(happened)]
        shortfall = relaxed - trace.summary.relaxed
        assert shortfall == sum(drawn[len(happened) :])
        seen["complete" if not shortfall else "short"] += relaxed > 0
    assert seen["short"] and (best or seen["complete"])


def test_every_set_of_places_is_equally_likely() -> None:
    counts = Counter(
        tuple(number for number in range(5) if int(lot(values, number)) % 2)
        for draw in range(6000)
        for values in ({"relaxed": 2, "of": 5, "draw": draw},)
    )
    assert len(counts) == 10  # 5 choose 2
    assert chisquare([*counts.values()]).pvalue > 0.001


def test_bits_go_on_where_the_text_is() -> None:
    values = {"relaxed": 30, "of": 200, "draw": 7}
    first = [int(lot(values, number)) % 2 for number in range(200)]
    assert sum(first) == 30
    for passed in range(0, 200, 9):
        bits = int(lot(values, passed))
        assert [bits >> at & 1 for at in range(53)] == (first + [0] * 53)[passed : passed + 53]


@pytest.mark.parametrize(("name", "temperature"), CASES)
def test_the_placebo_of_a_run_counts_what_it_relaxed_and_what_might_have_been(
    pair: Pair, name: str, temperature: float
) -> None:
    sampled = DRAFTS[name].mode is DraftMode.SAMPLED  # there MARS refuses what strict accepts
    rule = {"rule": "random", "probability": 0.4} if sampled else {"rule": "mars", "theta": 0.3}
    config = config_for(pair, DRAFTS[name], Sampling(temperature), seed=3, new=NEW, **rule)
    trace = decoded(pair, config)
    for best in (0,) if sampled else (0, 2):
        lane = Lane(RuleConfig("placebo", {"best": best, "draw": 0}), DRAFTS[name], config.rule)
        values = placebo_of(trace, lane, 17).parameters
        happened = [*rejections(trace, best)]
        relaxed, of = trace.summary.relaxed, len(happened)
        assert values == {"relaxed": relaxed, "of": of, "draw": 17, "best": best}
        assert relaxed == sum(happened) and (relaxed or temperature)
    protected = {node.id for step in trace.steps for node in step.nodes}
    assert placebo_of(trace, lane, 17, protected).parameters["of"] == trace.summary.relaxed
