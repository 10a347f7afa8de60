"""What a threshold means at some positions agrees with what the rule does there; a pair's θ is
used only where it is reported."""

from __future__ import annotations

import math
from argparse import Namespace
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from mars_core.margins import meaning
from mars_core.models import Pair, custom_pair
from mars_core.models.catalog import Theta
from mars_core.rules import RULES
from mars_core.settings import LaneSettings
from mars_core.settings.command_line import read_rules, threshold_lines
from mars_core.types import RuleConfig
from tests.unit.mars_core.test_rules import accept

WITH_ROOM = [rule for rule in RULES.values() if rule.margin_threshold]
EXAMPLE = ((10.0, 9.5), (20.0, 10.0), (30.0, 29.0))
PAIR_THETA = Theta(0.97, "the logits of this pair are large.")
NONE = Namespace(theta="", set=[], scope="all")


@pytest.mark.parametrize("name", [rule.name for rule in WITH_ROOM])
@pytest.mark.parametrize("value", [0.0, 0.5, 0.9, 1.0])
def test_near_ties_are_the_positions_where_the_rule_keeps_the_runner_up_for_sure(
    name: str, value: float
) -> None:
    """Of all signs of both logits."""
    source = torch.Generator().manual_seed(3)
    best = [
        sorted(row, reverse=True) for row in (3 * torch.randn(200, 2, generator=source)).tolist()
    ]
    parameters = {parameter.name: value for parameter in RULES[name].parameters}
    accepted = [accept(name, [z1, z2, z2 - 1], 1, **parameters) == 1 for z1, z2 in best]
    shares = meaning(RuleConfig(name, parameters), [(z1, z2) for z1, z2 in best])
    assert shares and shares.positions == 200 and shares.share == sum(accepted) / 200
    assert any(accepted) is (shares.share > 0) and 0 <= shares.tenth <= shares.median <= 1


@pytest.mark.parametrize(
    ("rule", "margins", "share", "median", "tenth"),
    [
        (
            RuleConfig("mars"),
            EXAMPLE,
            2 / 3,
            math.exp(-2),
            0.8 * math.exp(-3) + 0.2 * math.exp(-2),
        ),  # z₁ 10, 20, 30
        (RuleConfig("mars", {"theta": 1.0}), EXAMPLE, 0, 1, 1),
        (RuleConfig("mars-gap", {"gap": 0.7}), EXAMPLE, 1 / 3, math.exp(-0.7), math.exp(-0.7)),
        (RuleConfig("mars"), ((-1.0, -1.1), (0.0, -1.0)), 0, 1, 1),  # z₁ ≤ 0 is decisive
        (
            RuleConfig("mars-reference"),
            ((-1.0, -1.1), (-2.0, -9.0)),
            1,
            0,
            0,
        ),  # but not to the released code
    ],
)
def test_the_ratio_is_that_from_which_the_rule_relaxes(
    rule: RuleConfig, margins: Any, share: float, median: float, tenth: float
) -> None:
    assert meaning(rule, margins) == pytest.approx((len(margins), share, median, tenth))


@pytest.mark.parametrize("typed", ["", "0.97", "0.9"])
def test_the_theta_of_a_pair_comes_with_its_reason_and_any_other_without(typed: str) -> None:
    spec = replace(custom_pair("tests/target"), theta=PAIR_THETA)
    lanes = read_rules(["mars", "mars-gap"], Namespace(**vars(NONE) | {"theta": typed}))
    (mars, _) = rules = [LaneSettings(each).config(spec) for each in lanes]
    assert mars.parameters == {"theta": float(typed or 0.97)}
    lines = threshold_lines(rules, cast(Pair, Namespace(spec=spec, margins=EXAMPLE)))
    why = "θ = 0.97 is the default of this pair: the logits of this pair are large. The paper's is 0.9."
    assert (lines[2:] == [why]) is (typed != "0.9") and len(lines) == (2 if typed == "0.9" else 3)
