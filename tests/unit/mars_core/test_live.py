"""A run decides the same alone, beside others, captured, and without measured columns, whatever its
rule reads: state of the run, a ledger, a classifier, a plan of relaxations, penalties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from mars_core.models.idle import Engines
from mars_core.rules import RULES, Siblings
from mars_core.session import Session
from mars_core.types import Processors, Sampling, Trace
from tests.live_pairs import DRAFTS, config_for, decoded, ready_pair
from tests.replay import Operations, replayed
from tests.unit.mars_core.test_classifier import classified


class Case(NamedTuple):
    """``options``: of the runs; each of the three has one value of ``varied``."""

    options: dict[str, Any]
    varied: tuple[dict[str, float], ...] = ({}, {}, {})
    sampling: Sampling = Sampling(1.0)


DYNAMIC = {"theta": "0.4 + 0.1*min(4, entropy) + 0.001*position + 0.01*tv"}
NO_TV = {"theta": "0.4 + 0.1*min(4, entropy) + 0.001*position"}  # trees have none
WARM = Processors(0.05, 0.9, 1.2, 0.3, 0.2, 3, (("[40]", 2.0), ("on", -1.0)))
CASES = {
    "strict": Case({}, sampling=Sampling(0.8, top_k=20, top_p=0.9)),
    "an expression": Case({"rule": "mars"}),
    "a ledger": Case({"rule": "asd", "gate": 1.0}, tuple({"budget": b} for b in (0.6, 0, 1e5))),
    "a classifier": Case({"rule": "judge"}, tuple({"harm": each} for each in (0.5, 0.0, 0.9))),
    "a plan": Case(
        {"rule": "placebo"},
        tuple({"relaxed": n, "of": 5, "draw": n + 1, "best": 0} for n in (2, 0, 4)),
    ),
    "penalties": Case({"rule": "mars"}, sampling=Sampling(1.0, processors=WARM)),
}


def story(trace: Trace) -> str:
    """What a run decided; numbers of expressions to five digits, as graphs sum in another order."""
    return str(
        [
            (token.id, token.outcome, token.node, round(token.parameter, 4), round(token.regret, 4))
            for step in trace.steps
            for token in step.tokens
        ]
    )


@pytest.mark.parametrize(
    ("name", "drafter", "temperature"),
    [
        (name, drafter, (at + column) % 2)
        for at, name in enumerate(CASES)
        for column, drafter in enumerate(DRAFTS)
    ],
)
def test_a_run_is_the_same_alone_beside_others_captured_and_unmeasured(
    name: str, drafter: str, temperature: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, chosen, pair = CASES[name], DRAFTS[drafter], classified(ready_pair())
    rule = RULES[case.options.get("rule", "strict")]
    if chosen.mode not in rule.modes or (chosen.tree and rule.siblings is Siblings.REFUSED):
        return
    sampling = replace(case.sampling, temperature=temperature * case.sampling.temperature)
    options = dict(case.options)
    if name == "an expression":
        options |= NO_TV if chosen.tree and temperature else DYNAMIC
    configs = [
        config_for(pair, chosen, sampling, seed=seed, new=16 + seed, **options, **more)
        for seed, more in enumerate(case.varied)
    ]
    alone = [decoded(pair, config) for config in configs]
    other = config_for(pair, chosen, seed=1, new=9)  # its engine reads less
    beside = [run.trace() for _, run in sorted(Session(pair).together([*configs, other], 2))]
    assert [story(each) for each in beside[:3]] == [story(each) for each in alone]
    bare = Session(pair).start(configs[0], telemetry=False)
    assert list(bare) and bare.trace().token_ids == alone[0].token_ids
    stand_in, captured = replayed(monkeypatch), replace(pair, graphs=True, engines=Engines())
    for config, eager in zip(configs, alone, strict=True):
        assert story(decoded(captured, config)) == story(eager)
        stand_in.watch = operations = Operations()
    assert stand_in.captures and not operations.uncaptured
