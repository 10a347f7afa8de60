"""Hand-made cases for every rule: below, at and above its border, negative and infinite logits,
parameters out of range."""

from __future__ import annotations

import importlib
import math
import re
import sys
from pathlib import Path

import pytest
import torch

import mars_core.rules
from mars_core.rules import RULES, Evidence
from mars_core.rules.evidence import State
from mars_core.sampling import displayed_distribution, target_distribution
from mars_core.types import Sampling
from tests.unit.mars_core.test_verification import column, columns, drawn_case

LN = [math.log(p) for p in (0.5, 0.3, 0.2)]  # logits whose softmax is known
SOFT = torch.tensor(LN, dtype=torch.float64).softmax(-1).tolist()  # but for its rounding


def accept(
    name: str,
    logits: list[float],
    x: int,
    *,
    cold: bool = False,
    q: float = 1.0,
    tried: float = 0.0,
    drafter: list[float] | None = None,
    top_k: int = 0,
    **parameters: float,
) -> float:
    """a(x) of one drafted token; ``cold`` means temperature 0."""
    z = torch.tensor([logits], dtype=torch.float64)
    sampling = Sampling(0.0) if cold else Sampling(1.0, top_k)
    distribution = target_distribution(z, sampling)
    top_z, top_ids = torch.sort(z, stable=True, descending=True)
    one = torch.ones(1, 1, dtype=torch.float64)
    seen = Evidence(
        logits=z,
        distribution=distribution,
        soft=displayed_distribution(z, distribution, sampling),
        drafter=None if drafter is None else torch.tensor([drafter]),
        top_z=top_z,
        top_ids=top_ids,
        at=torch.tensor([0]),
        x=torch.tensor([[x]]),
        q=one * q,
        confidence=one,
        tried=one * tried,
        greedy=cold,
        state=State(*[one] * 7, None, {}),
    )
    return float(RULES[name].accept(seen, RULES[name].values(parameters)))


TIES = [
    ([10.0, 9.5, 9.4], 1, 0.9, True),  # runner-up in a near tie
    ([10.0, 9.5, 9.4], 0, 0.9, True),  # the best, though another was drawn
    ([10.0, 9.0, 0.0], 1, 0.9, False),  # r = θ is not above it
    ([10.0, 9.0 + 1e-9, 0.0], 1, 0.9, True),
    ([10.0, 8.9, 0.0], 1, 0.9, False),  # decisive
    ([-1.0, -8.0, -9.0], 1, 0.9, False),  # z₁ ≤ 0 is decisive, though r = 8
    ([0.0, 0.0, -9.0], 1, 0.9, False),
    ([10.0, 10.0, 0.0], 1, 1.0, False),  # θ = 1 is strict
    ([10.0, 0.1, 0.0], 1, 0.0, True),  # θ = 0: every runner-up with z₂ > 0
    ([10.0, -0.1, -1.0], 1, 0.0, False),
    ([10.0, -math.inf, -math.inf], 1, 0.9, False),
]


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize(("logits", "x", "theta", "low"), TIES)
def test_mars_keeps_the_two_best_at_low_margin_only(
    logits: list[float], x: int, theta: float, low: bool, cold: bool
) -> None:
    """Elsewhere mars is strict; Algorithm 1 keeps the best token and nothing else."""
    assert accept("mars", [10.0, 9.5, 9.4], 2, cold=cold) == 0, "never the third"
    assert accept("mars", logits, x, cold=cold, theta=theta) == (
        1 if low else accept("strict", logits, x, cold=cold)
    )
    assert accept("mars-algorithm1", logits, x, cold=cold, theta=theta) == (low or x == 0)


def test_at_the_border_itself() -> None:
    """p = ε of typical and the gap of mars-gap are refused, z₁ − z₂ and ratios that are equal to theirs are kept."""
    assert accept("typical", LN, 2, epsilon=SOFT[2], delta=1000) == 0
    assert accept("mars-gap", [2.0, 1.5, 0.0], 1, cold=True, gap=0.5) == 0
    assert accept("topk-delta", LN, 1, delta=SOFT[0] - SOFT[1]) == 1
    assert accept("topk-ratio", [1.0, 1.0, 0.0], 1, ratio=1) == 1
    assert accept("threshold", LN, 1, cold=True, single=SOFT[1]) == 1
    assert accept("threshold", LN, 2, tried=0.8, accumulated=0.8) == 0  # those before take all
    assert accept("fly", LN, 2, entropy=0, top_k=2) == 0


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize("name", RULES)
def test_every_rule_gives_a_probability_for_all_logits(name: str, cold: bool) -> None:
    low, none = -70.0, -math.inf
    for logits in (
        [-5.0, -6.0, low],
        [0.0] * 3,
        [3.0, none, none],
        [none, -2.0, none],
        [80.0, -80.0, 0.0],
    ):
        for x in range(3):
            for q in (1.0, 1e-30):
                assert (
                    0
                    <= accept(name, logits, x, cold=cold, q=q, drafter=[0.0, 0.0, 1.0])
                    <= 1 + 1e-12
                )


@pytest.mark.parametrize("name", RULES)
def test_bad_parameters_are_named_with_their_range(name: str) -> None:
    rule = RULES[name]
    for each in rule.parameters:
        for value in (each.low - 1, each.high + 1, math.nan):
            range_ = re.escape(f"{each.low:g} to {each.high:g}")
            with pytest.raises(ValueError, match=rf"{each.name} is .*{name} takes {range_}"):
                rule.values({each.name: value})
        for value in (each.low, each.high):
            assert rule.values({each.name: value})[each.name] == value


def test_the_lossless_rules_are_those_that_relax_nothing() -> None:
    assert {name for name, rule in RULES.items() if rule.lossless} == {"none", "strict", "block"}


def test_a_new_rule_is_one_short_file_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of docs/contributing.md."""
    example = (
        (Path(__file__).parents[3] / "docs" / "contributing.md")
        .read_text(encoding="utf-8")
        .split("```python\n")[1]
        .split("```")[0]
    )
    assert example.count("\n") < 30
    (tmp_path / "floor.py").write_text(example, encoding="utf-8")
    monkeypatch.setattr(mars_core.rules, "__path__", [*mars_core.rules.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    rules = mars_core.rules._load_rules()
    del sys.modules["mars_core.rules.floor"], vars(mars_core.rules)["floor"]
    assert {*rules} == {*RULES, "floor"}
    logits, draft, u = drawn_case("chain of 3", 0)
    rows = columns(logits, draft, rules["floor"], Sampling(1.0), u, {"floor": 0})
    assert column(rows, "keep") == [1] * 4
