"""Distributions and draws: the warpers are those of transformers, and drawing has exactly the
distribution it is given."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chisquare, kstest
from torch import Tensor
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from mars_core.sampling import (
    LEAST_TEMPERATURE,
    Use,
    chance,
    draw,
    noise,
    target_distribution,
    words,
)
from mars_core.types import DraftMode, Processors, Sampling
from tests.unit.mars_core.test_verification import keys

FIRST_WORDS = [-6436243100533299141, -5792855801218550262]  # of seed 7
FIRST_NOISE = [
    [94538, 381811, 514709],
    [334926, 29375, 686412],
]  # of ids 0 to 2, as uniforms in millionths


def column(random_words: list[int], use: Use) -> Tensor:
    """The words of one use, one a position."""
    return torch.tensor(random_words).view(-1, len(Use))[:, use]


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.9])
@pytest.mark.parametrize("top_k", [0, 1, 5, 400])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-6])
@pytest.mark.parametrize(
    ("min_p", "typical_p"), [(0.0, 1.0), (0.1, 1.0), (1.0, 1.0), (0.0, 0.6), (0.02, 0.9)]
)
def test_distribution_is_that_of_the_warpers_of_generate(
    temperature: float, top_k: int, top_p: float, min_p: float, typical_p: float
) -> None:
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(1)) * 3
    scores = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    if min_p:
        scores = MinPLogitsWarper(min_p)(None, scores)
    if typical_p < 1:
        scores = TypicalLogitsWarper(typical_p)(None, scores)
    distribution = target_distribution(
        logits, Sampling(temperature, top_k, top_p, Processors(min_p, typical_p))
    )
    assert torch.allclose(distribution, scores.softmax(-1), atol=1e-7)


def test_noise_is_a_function_of_seed_position_and_id() -> None:
    """Not of the step, the size of the vocabulary or the other positions. The numbers are those of
    every device."""
    few, many = (
        noise(keys(7, first, count), size) for first, count, size in ((3, 2, 50), (0, 9, 1537))
    )
    assert torch.equal(few, many[3:5, :50])
    assert not torch.equal(noise(keys(8, 3, 2), 50), few)
    assert keys(7, 0, 2).tolist() == FIRST_WORDS
    assert (noise(torch.tensor(FIRST_WORDS), 3).neg().exp() * 1e6).round().tolist() == FIRST_NOISE
    assert many.isfinite().all() and (many > 0).all()


def test_of_the_words_of_two_steps_at_one_position_only_the_drawing_ones_are_equal() -> None:
    """A rule may have looked at the others without using the position: there they must not decide
    again."""
    first, second = words(7, 10, 6), words(7, 12, 6)
    assert column(first, Use.DRAW)[2:].tolist() == column(second, Use.DRAW)[:4].tolist()
    others = [
        *first,
        *(word for use in (Use.ACCEPT, Use.DRAFT) for word in column(second, use).tolist()),
        *words(8, 10, 6),
    ]
    assert len({*others}) == len(others)
    assert words(7, 10, 3) == first[:9]
    assert all(
        -(2**63) <= word < 2**63 for seed in (0, 2**63 - 1) for word in words(seed, 2**40, 3)
    )


@pytest.mark.parametrize("mode", DraftMode)
def test_the_draft_mode_decides_with_which_noise_is_drafted(mode: DraftMode) -> None:
    random_words = torch.tensor(words(1, 5, 4)).view(-1, 3)
    drawn, cold = (chance(random_words, 9, mode, temperature) for temperature in (1.0, 0.0))
    of_target, other = (noise(random_words[:, use], 9) for use in (Use.DRAW, Use.DRAFT))
    expected = {DraftMode.COUPLED: of_target, DraftMode.SAMPLED: other}.get(mode)
    assert drawn.noise is not None and torch.equal(drawn.noise, of_target)
    assert str(drawn.draft) == str(expected) and (cold.noise, cold.draft) == (None, None)
    assert ((drawn.uniform >= 0) & (drawn.uniform < 1)).all()


def test_noise_is_exponential_and_independent_along_ids_positions_and_seeds() -> None:
    """Kolmogorov-Smirnov over all three directions, correlation of neighbours, and the draws of a
    distribution."""
    along = [noise(keys(3, 0, 3000), 200)]
    along.append(torch.cat([noise(keys(seed, 5, 1), 200) for seed in range(3000)]))
    for each in along:
        u = each.double().neg().exp()
        p = [kstest(row, "uniform").pvalue for row in (*u[:100], *u.T[:100])]
        assert min(p) > 1e-5 and kstest(p, "uniform").pvalue > 1e-4
        centred = (u - 0.5) * math.sqrt(12)
        for product in (centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1]):
            assert abs(float(product.mean())) < 5 / math.sqrt(product.numel())


def test_draws_have_the_distribution_and_never_give_an_impossible_id() -> None:
    p = torch.tensor([[0.0, 0.25, 0.0, 0.6, 0.05, 0.1, 0.0]])
    ids = draw(p.expand(100_000, -1), noise(keys(11, 0, 100_000), 9)).ids
    counts = torch.bincount(ids, minlength=7)
    assert counts[p[0] == 0].sum() == 0
    assert (
        chisquare(
            counts[p[0] > 0], (p[p > 0].double() / p.sum(dtype=torch.float64)) * len(ids)
        ).pvalue
        > 1e-4
    )


def test_of_equal_values_the_lowest_id_is_drawn_and_the_edge_is_the_distance_of_the_two_best() -> (
    None
):
    drawn = draw(
        torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]), torch.ones(3, 3)
    )
    assert drawn.ids.tolist() == [2, 0, 1]
    assert drawn.gap().tolist() == pytest.approx([math.log(2), 0, math.inf])


@pytest.mark.parametrize("temperature", [LEAST_TEMPERATURE, 1e-30, 1e-6])
def test_the_smallest_temperatures_are_exact(temperature: float) -> None:
    """The logits divided by them are beyond float32: the best token has probability 1, equal ones
    share it."""
    logits = torch.tensor([[30.0, 29.0, -torch.inf], [-3e38, 7.0, 7.0], [-9.0, -8.0, -9.0]])
    for sampling in (Sampling(temperature), Sampling(temperature, 2, 0.999)):
        assert target_distribution(logits, sampling).tolist() == [
            [1, 0, 0],
            [0, 0.5, 0.5],
            [0, 1, 0],
        ]


def test_top_k_keeps_all_that_tie_with_the_last() -> None:
    distribution = target_distribution(torch.tensor([[3.0, 1.0, 1.0, 0.0]]), Sampling(1.0, top_k=2))
    assert (distribution > 0).tolist() == [[True, True, True, False]]
