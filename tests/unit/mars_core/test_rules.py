"""Hand-made cases for every rule: never, always, at the margin, negative and infinite logits, parameters out of range."""

from __future__ import annotations

import math

import pytest
import torch

from mars_core.rules import RULES, Evidence


def forgiveness(name: str, logits: list[float], x: int, **parameters: float) -> float:
    z = torch.tensor([logits])
    top_z, top_ids = z.topk(2)
    rule = RULES[name]
    evidence = Evidence(z, z.softmax(-1), torch.tensor([[x]]), top_z, top_ids)
    return float(rule.forgive(evidence, rule.values(parameters)))


@pytest.mark.parametrize("logits", [[10.0, 9.9, 0.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -3.0]])
@pytest.mark.parametrize("x", [0, 1, 2])
def test_strict_never_forgives(logits: list[float], x: int) -> None:
    assert forgiveness("strict", logits, x) == 0


@pytest.mark.parametrize("name", ["mars", "mars-algorithm1"])
@pytest.mark.parametrize(
    ("logits", "x", "theta", "expected"),
    [
        ([10.0, 9.5, 9.4], 1, 0.9, 1),  # runner-up in a near tie
        ([10.0, 9.5, 9.4], 0, 0.9, 1),  # the best, though another was drawn
        ([10.0, 9.5, 9.4], 2, 0.9, 0),  # the third is never forgiven
        ([10.0, 9.0, 0.0], 1, 0.9, 0),  # r = θ is not above it
        ([10.0, 8.9, 0.0], 1, 0.9, 0),  # decisive
        ([10.0, 8.9, 0.0], 1, 0.85, 1),
        ([-1.0, -8.0, -9.0], 1, 0.9, 0),  # z₁ ≤ 0 is decisive, though r = 8
        ([0.0, 0.0, -9.0], 1, 0.9, 0),
        ([10.0, 10.0, 0.0], 1, 1.0, 0),  # θ = 1 is strict
        ([10.0, 0.1, 0.0], 1, 0.0, 1),  # θ = 0 forgives every runner-up with z₂ > 0
        ([10.0, -0.1, -1.0], 1, 0.0, 0),
        ([10.0, -math.inf, -math.inf], 1, 0.9, 0),
    ],
)
def test_mars_forgives_the_two_best_at_low_margin_only(
    name: str, logits: list[float], x: int, theta: float, expected: float
) -> None:
    assert forgiveness(name, logits, x, theta=theta) == expected


@pytest.mark.parametrize("shift", [0.0, -100.0, 55.0])
@pytest.mark.parametrize(("x", "gap", "expected"), [(1, 0.7, 1), (0, 0.7, 1), (2, 0.7, 0), (1, 0.5, 0), (1, 0.0, 0)])
def test_mars_gap_does_not_see_a_shift_of_the_logits(shift: float, x: int, gap: float, expected: float) -> None:
    assert forgiveness("mars-gap", [10.0 + shift, 9.5 + shift, 9.4 + shift], x, gap=gap) == expected


@pytest.mark.parametrize("name", RULES)
def test_bad_parameters_are_named_with_their_range(name: str) -> None:
    rule = RULES[name]
    with pytest.raises(ValueError, match="no parameter nonsense"):
        rule.values({"nonsense": 1})
    for parameter in rule.parameters:
        for value in (parameter.low - 1, parameter.high + 1, math.nan, math.inf, -math.inf):
            with pytest.raises(ValueError, match=rf"{parameter.name} is .*{name} takes"):
                rule.values({parameter.name: value})
        assert rule.values({})[parameter.name] == parameter.default
        assert rule.values({parameter.name: parameter.high})[parameter.name] == parameter.high


@pytest.mark.parametrize("name", RULES)
def test_every_rule_says_what_it_does_and_where_it_comes_from(name: str) -> None:
    rule = RULES[name]
    assert rule.name == name
    assert all((rule.summary, rule.formula, rule.source, *(parameter.help for parameter in rule.parameters)))
