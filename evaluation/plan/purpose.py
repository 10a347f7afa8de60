"""What a study is for, beside its comparisons: a setting that may be used, or rules at equal τ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of a rule, from strict's runs on other prompts. ``relaxed``: share of the rejected drafts;
    ``cost``: nats of log-likelihood that relaxing gives up, per token."""

    relaxed: float
    tau: float
    cost: float


@dataclass(frozen=True, slots=True)
class Advice:
    """The candidates are the plan's rules, in its order: tested one after the other at the level
    ``alpha``, up to the first that is not supported. ``rules``: those that were requested;
    ``tuning``: prompts of strict's runs, which are not among the plan's; ``tau``: strict's there;
    ``predictions``: of the candidates."""

    alpha: float
    rules: tuple[str, ...]
    tuning: int
    tau: float
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """The plan's rules have parameters with which they reach ``target`` on other prompts.
    ``quantity``: tau or speedup; ``tuning``: number of those prompts; ``reached``: there, by each
    rule in the plan's order."""

    quantity: str
    target: float
    rules: tuple[str, ...]
    tuning: int
    reached: tuple[float, ...]
