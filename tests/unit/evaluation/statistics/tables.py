"""Paired scores made by hand, and drawn ones with a known truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from evaluation.recovery import Paired, paired

Array = NDArray[np.float64]


def table(both: int, gained: int, lost: int, neither: int = 0, *, seeds: int = 1) -> Paired:
    """A paired fourfold table of prompts whose seeds all agree."""
    rule = np.repeat([1.0, 1, 0, 0], np.array([both, gained, lost, neither]) * seeds)
    baseline = np.repeat([1.0, 0, 1, 0], np.array([both, gained, lost, neither]) * seeds)
    return paired(rule, baseline, np.repeat(np.arange(len(rule) // seeds), seeds), binary=True)


def drawn(
    generator: np.random.Generator, prompts: int, seeds: int, *, right: float, recovery: float, differ: float
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Scores of rule and baseline and the prompt of each run: seeds of a prompt hang together with correlation 0.5 and 0.3.

    The baseline is right with probability ``right``, the rule with ``recovery`` × that, and they differ with probability ``differ``.
    """

    def uniforms(share: float) -> Array:
        common, own = generator.standard_normal((prompts, 1)), generator.standard_normal((prompts, seeds))
        uniform: Array = ndtr(np.sqrt(share) * common + np.sqrt(1 - share) * own).ravel()
        return uniform

    loses, gains = (differ + (1 - recovery) * right) / 2, (differ - (1 - recovery) * right) / 2
    baseline, coin = uniforms(0.5) < right, uniforms(0.3)
    rule = np.where(baseline, coin >= loses / right, coin < gains / (1 - right))
    return rule.astype(float), baseline.astype(float), np.repeat(np.arange(prompts), seeds)
