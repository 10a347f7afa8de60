"""Laws and draws: the warpers are transformers' own, and drawing has exactly the distribution it is given."""

from __future__ import annotations

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mars_core.sampling import (
    Use,
    displayed_distribution,
    draw,
    lowest_argmax,
    residual,
    step_uniforms,
    target_distribution,
    uniforms,
)
from mars_core.types import Sampling


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.9])
@pytest.mark.parametrize("top_k", [0, 1, 5, 400])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-6])
def test_law_is_that_of_the_warpers_of_generate(temperature: float, top_k: int, top_p: float) -> None:
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(1)) * 3
    scores = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    distribution = target_distribution(logits, Sampling(temperature, top_k, top_p))
    assert torch.allclose(distribution, scores.softmax(-1), atol=1e-7)


def test_temperature_0_is_one_hot_at_the_lowest_of_equal_maxima() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0], [-torch.inf, -5.0, -5.0], [0.0, 0.0, 0.0]])
    distribution = target_distribution(logits, Sampling(0.0))
    assert distribution.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert lowest_argmax(logits).tolist() == [1, 1, 0]


def test_drawing_uniforms_belong_to_positions_not_to_calls() -> None:
    few, many = uniforms(7, 5), uniforms(7, 500)
    assert torch.equal(few, many[:5])
    assert not torch.equal(uniforms(8, 5), few)
    assert ((many >= 0) & (many < 1)).all()
    assert uniforms(7, 0).shape == (0,)


def test_of_the_uniforms_of_two_steps_at_one_position_only_the_drawing_ones_are_equal() -> None:
    """A rule may have looked at the others without using the place: there they must not decide again."""
    draws = uniforms(7, 40)
    first, second = step_uniforms(draws, 7, 10, 6), step_uniforms(draws, 7, 12, 6)
    assert torch.equal(first[:, Use.DRAW], draws[10:16])
    assert torch.equal(first[2:, Use.DRAW], second[:4, Use.DRAW])
    others = torch.cat([first[:, 1:], second[:, 1:], step_uniforms(draws, 8, 10, 6)[:, 1:], draws[:6, None]], 1)
    assert len(set(others.flatten().tolist())) == others.numel()
    assert ((others >= 0) & (others < 1)).all()
    assert torch.equal(step_uniforms(draws, 7, 10, 3), first[:3])
    assert step_uniforms(draws, 7, 39, 1).shape == (1, 3)


def test_draw_is_the_inverse_cdf_and_never_gives_an_impossible_id() -> None:
    distribution = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]])
    for u, expected in [(0.0, 1), (0.2499, 1), (0.25, 3), (0.9999999, 3), (1 - 2**-53, 3)]:
        assert draw(distribution, torch.tensor([u], dtype=torch.float64)).ids.tolist() == [expected]


def test_each_id_owns_an_interval_as_long_as_its_probability() -> None:
    distribution = torch.rand(1, 9, generator=torch.Generator().manual_seed(3)).double()
    distribution /= distribution.sum()
    u = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    ids = draw(distribution.expand(len(u), -1), u).ids
    assert torch.allclose(torch.bincount(ids, minlength=9).double() / len(u), distribution[0], atol=1e-4)


def test_residual_is_normalised_and_falls_back_to_p_where_nothing_is_left() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    q = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    assert torch.allclose(residual(p, q), torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]]))


def test_top_k_keeps_all_that_tie_with_the_last() -> None:
    distribution = target_distribution(torch.tensor([[3.0, 1.0, 1.0, 0.0]]), Sampling(1.0, top_k=2))
    assert (distribution > 0).tolist() == [[True, True, True, False]]


def test_the_shown_law_is_p_and_at_temperature_0_the_softmax() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0]])
    for sampling in (Sampling(0.0), Sampling(0.7, top_k=2)):
        p = target_distribution(logits, sampling)
        expected = p if sampling.temperature else logits.softmax(-1)
        assert torch.equal(displayed_distribution(logits, p, sampling), expected)
