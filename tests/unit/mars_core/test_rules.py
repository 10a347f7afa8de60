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
from mars_core.rules.base import State
from mars_core.sampling import displayed_distribution, target_distribution
from mars_core.types import DraftMode, Sampling
from mars_core.verification import judge
from tests.unit.mars_core.test_verification import case, chance, column

LN = [math.log(p) for p in (0.5, 0.3, 0.2)]  # logits whose softmax is known
SOFT = torch.tensor(LN, dtype=torch.float64).softmax(-1).tolist()  # but for its rounding


def accept(
    name: str,
    logits: list[float],
    x: int,
    *,
    cold: bool = False,
    q: float = 1.0,
    confidence: float = 1.0,
    tried: float = 0.0,
    drafter: list[float] | None = None,
    top_k: int = 0,
    **parameters: float,
) -> float:
    """a(x) of one drafted token; ``cold`` means temperature 0."""
    seen = evidence(logits, x, cold, q, confidence, tried, drafter, top_k)
    return float(RULES[name].accept(seen, RULES[name].values(parameters)))


def evidence(
    logits: list[float],
    x: int,
    cold: bool = False,
    q: float = 1.0,
    confidence: float = 1.0,
    tried: float = 0.0,
    drafter: list[float] | None = None,
    top_k: int = 0,
) -> Evidence:
    z = torch.tensor([logits], dtype=torch.float64)
    sampling = Sampling(0.0) if cold else Sampling(1.0, top_k)
    distribution = target_distribution(z, sampling)
    top_z, top_ids = torch.sort(z, stable=True, descending=True)
    one = torch.ones(1, 1, dtype=torch.float64)
    return Evidence(
        logits=z,
        distribution=distribution,
        soft=displayed_distribution(z, distribution, sampling),
        drafter=None if drafter is None else torch.tensor([drafter]),
        top_z=top_z,
        top_ids=top_ids,
        at=torch.tensor([0]),
        x=torch.tensor([[x]]),
        q=one * q,
        confidence=one * confidence,
        tried=one * tried,
        greedy=cold,
        state=State(*[one] * 7, None, {}),
    )


TIES = [
    ([10.0, 9.5, 9.4], 1, 0.9, True),  # runner-up in a near tie
    ([10.0, 9.5, 9.4], 0, 0.9, True),  # the best, though another was drawn
    ([10.0, 9.0, 0.0], 1, 0.9, False),  # r = θ is not above it
    ([10.0, 9.0 + 1e-9, 0.0], 1, 0.9, True),
    ([10.0, 8.9, 0.0], 1, 0.9, False),  # decisive
    ([10.0, 8.9, 0.0], 1, 0.85, True),
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


@pytest.mark.parametrize("shift", [0.0, -100.0, 55.0])
@pytest.mark.parametrize(
    ("x", "gap", "low"),
    [(1, 0.51, True), (0, 0.51, True), (1, 0.5, False), (1, 0.49, False), (1, 0, False)],
)
def test_mars_gap_does_not_see_a_shift_of_the_logits(
    shift: float, x: int, gap: float, low: bool
) -> None:
    logits = [10.0 + shift, 9.5 + shift, 9.4 + shift]
    assert accept("mars-gap", logits, x, gap=gap) == (1 if low else accept("strict", logits, x))
    assert accept("mars-gap", logits, 2, gap=0.7) == 0, "never the third"
    assert accept("mars-gap", [1.0, -math.inf, -math.inf], 1, gap=100) == 0


def test_typical_keeps_what_is_strictly_above_the_lower_of_two_bars() -> None:
    assert accept("typical", LN, 2, epsilon=SOFT[2], delta=1000) == 0  # p = ε
    assert accept("typical", LN, 2, epsilon=SOFT[2] - 1e-9, delta=1000) == 1
    spread = -sum(each * math.log(each + 1e-5) for each in SOFT)
    bar = SOFT[1] * math.exp(spread)
    assert [
        accept("typical", LN, 1, epsilon=1, delta=bar * scale) for scale in (1 - 1e-9, 1 + 1e-9)
    ] == [1, 0]
    assert [accept("typical", LN, x, cold=True, epsilon=0, delta=0) for x in range(3)] == [1, 0, 0]


@pytest.mark.parametrize("cold", [True, False])
def test_topk_by_difference_and_by_ratio(cold: bool) -> None:
    delta, ratio = SOFT[0] - SOFT[1], SOFT[1] / SOFT[0]
    assert [
        accept("topk-delta", LN, 1, cold=cold, delta=each) for each in (delta, delta - 1e-9)
    ] == [1, 0]
    assert [accept("topk-delta", LN, 2, cold=cold, delta=1, n=n) for n in (2, 3)] == [0, 1]
    assert accept("topk-delta", LN, 0, cold=cold, delta=0, n=1) == 1
    assert [
        accept("topk-ratio", LN, 1, cold=cold, ratio=each) for each in (ratio - 1e-9, ratio + 1e-9)
    ] == [1, 0]
    assert [accept("topk-ratio", LN, 2, cold=cold, ratio=0, n=n) for n in (2, 3)] == [0, 1]
    assert accept("topk-ratio", [1.0, 1.0, 0.0], 1, cold=cold, ratio=1) == 1


def test_threshold() -> None:
    for cold in (True, False):
        assert accept("threshold", LN, 1, cold=cold, single=SOFT[1]) == 1
    assert [accept("threshold", LN, x, cold=True, single=SOFT[1] + 1e-9) for x in range(3)] == [
        1,
        0,
        0,
    ]
    assert accept("threshold", LN, 2, tried=0.8, accumulated=0.8) == 0  # those before take all


def test_lenience() -> None:
    border = SOFT[1] / SOFT[0]
    assert [
        accept("lenience", LN, 1, cold=True, lenience=each)
        for each in (border - 1e-9, border + 1e-9)
    ] == [1, 0]


@pytest.mark.parametrize("cold", [True, False])
def test_cascade_token(cold: bool) -> None:
    border = 1 - SOFT[1] / SOFT[0]
    beside, within = (
        accept("cascade-token", LN, 1, cold=cold, alpha=border + each) for each in (-1e-9, 1e-9)
    )
    assert [beside, within] == pytest.approx([0 if cold else 0.3, 1])
    assert accept("cascade-token", LN, 0, cold=cold, alpha=0) == 1


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    "name", [name for name, rule in RULES.items() if rule.chance or rule.switch]
)
def test_a_rule_with_one_chance_relaxes_every_token_with_it(name: str, near: bool) -> None:
    rule, values = RULES[name], {each.name: 0.4 for each in RULES[name].parameters}
    drafter = [0.4, 0.3, 0.3] if near else [0.02, 0.02, 0.96]
    for x, p in enumerate(SOFT):
        for q in (1.0, p / 2, p * 2):
            strict = min(1.0, p / q)
            here = evidence(LN, x, q=q, drafter=drafter)
            relaxed = float(rule.chance(values) if rule.chance else rule.switch(here, values))
            expected = strict + relaxed * (1 - strict)
            assert accept(name, LN, x, q=q, drafter=drafter, **values) == pytest.approx(expected)
            assert accept("always", LN, x, cold=True, q=q) == 1


@pytest.mark.parametrize("cold", [True, False])
def test_fuzzy_follows_the_drafter_below_its_divergence_and_cascade_opt_where_it_is_as_sure(
    cold: bool,
) -> None:
    q = [0.3, 0.3, 0.4]
    middle = [(a + b) / 2 for a, b in zip(SOFT, q, strict=True)]
    spread = [-sum(each * math.log(each) for each in d) for d in (middle, SOFT, q)]
    distance = spread[0] - (spread[1] + spread[2]) / 2
    margin = (SOFT[0] - 0.4) / 0.2  # TV is 0.2
    strict = accept("strict", LN, 2, cold=cold)
    for name, parameter, border in (
        ("fuzzy", "divergence", distance),
        ("cascade-opt", "alpha", margin),
    ):
        assert [
            accept(name, LN, 2, cold=cold, drafter=q, **{parameter: border + each})
            for each in (-1e-6, 1e-6)
        ] == [strict, 1]


def test_cactus_raises_p_by_its_budget() -> None:
    for p, x in zip(SOFT, range(3), strict=True):
        raised = p + math.sqrt(2 * 0.1 * p * (1 - p))
        assert accept("cactus", LN, x, delta=0.1) == pytest.approx(raised)
        assert accept("cactus", LN, x, delta=0.1, q=raised * 2) == pytest.approx(0.5)
        assert accept("cactus", LN, x, delta=0.1, q=raised / 2) == 1
    assert [accept("cactus", LN, x, cold=True) for x in range(3)] == [1, 0, 0]


def test_easd_refuses_where_both_are_unsure_about_the_same_tokens() -> None:
    spread = -sum(each * math.log(each) for each in SOFT)
    unsure = {"drafter": [1 / 3] * 3, "n": 3, "overlap": 1.0}
    assert accept("easd", LN, 0, entropy=spread - 1e-9, **unsure) == 0
    assert accept("easd", LN, 0, entropy=spread + 1e-9, **unsure) == pytest.approx(0.5)
    assert accept("easd", LN, 0, cold=True, entropy=0, **unsure) == 1
    sure = {"drafter": [0.0, 0.0, 1.0], "n": 1, "entropy": 0}
    assert accept("easd", LN, 0, overlap=0, **sure) == pytest.approx(0.5)
    other = {"drafter": [0.2, 0.3, 0.5], "n": 1, "entropy": 0.1}
    assert [accept("easd", LN, 2, overlap=each, **other) for each in (0, 0.5)] == pytest.approx(
        [0, 0.2]
    )


def test_contrastive_keeps_what_the_target_prefers_more_than_the_drafter() -> None:
    q = [0.8, 0.1, 0.1]
    for alpha, accepted in ((0.5, 1), (0.7, 0)):  # 0.3 of 0.5 is plausible with the first
        options = {"drafter": q, "beta": 10.0, "alpha": alpha}
        assert [accept("contrastive", LN, x, cold=True, **options) for x in range(3)] == [
            float(x == accepted) for x in range(3)
        ]
    goal = [a**1.5 * b**-0.5 for a, b in zip(SOFT, q, strict=True)]
    expected = [each / sum(goal) for each in goal]
    for x in range(3):
        a = accept("contrastive", LN, x, drafter=q, beta=0.5, alpha=0)
        assert a == pytest.approx(expected[x], abs=1e-6)


def test_fly_opens_its_gate_at_the_bar() -> None:
    spread = -sum(each * math.log(each) for each in SOFT)
    assert accept("fly", LN, 2, entropy=spread - 1e-9) == 1
    assert accept("fly", LN, 2, entropy=spread + 1e-9) == pytest.approx(0.2)
    assert accept("fly", LN, 2, entropy=0, top_k=2) == 0
    assert [accept("fly", LN, 2, cold=True, entropy=spread + each) for each in (-1e-9, 1e-9)] == [
        1,
        0,
    ]


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
    with pytest.raises(ValueError, match="no parameter nonsense"):
        rule.values({"nonsense": 1})
    for parameter in rule.parameters:
        for value in (parameter.low - 1, parameter.high + 1, math.nan, math.inf, -math.inf):
            range_ = re.escape(f"{parameter.low:g} to {parameter.high:g}")
            with pytest.raises(ValueError, match=rf"{parameter.name} is .*{name} takes {range_}"):
                rule.values({parameter.name: value})
        assert rule.values({})[parameter.name] == parameter.default
        assert rule.values({parameter.name: parameter.high})[parameter.name] == parameter.high
        assert rule.values({parameter.name: parameter.low})[parameter.name] == parameter.low


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
    floor, (logits, draft) = rules["floor"], case("chain of 3", 0)
    p, values, u = (
        target_distribution(logits, Sampling(1.0)),
        floor.values({"floor": 0}),
        chance(draft, 0),
    )
    rows = judge(logits, draft, floor, values, Sampling(1.0), DraftMode.GREEDY, u)
    assert column(rows, "keep") == [1] * 4
    assert column(rows, "tv")[:3] == pytest.approx(
        [1 - float(p[at, token]) for at, token in enumerate(draft.ids[1:])]
    )
