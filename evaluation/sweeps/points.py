"""What a sweep measured: one Result a comparison, one Point a setting. Values in, values out; knows no store and no model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.scoring.answer import score
from evaluation.statistics import over, quartiles, wilson
from evaluation.sweeps.plan import Case, Cell, Plan, read_plan
from mars_core.telemetry import first_divergence
from mars_core.types import Trace

__all__ = ["Case", "Cell", "Interval", "Plan", "Point", "Result", "points", "read_plan", "result_of"]
NAN = math.nan


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison, strict against the rule on the same prompt and seed. Rates of tokens are summed, so that they can be pooled."""

    comparison: str  # id in the store
    case: int
    repeat: int
    temperature: float
    k: int | None
    value: float | None
    strict_tokens_per_s: float
    tokens_per_s: float
    strict_tokens: int
    tokens: int
    strict_steps: int
    steps: int
    relaxed: int
    tv_sum: float
    divergence: int | None = None  # first output position at which the texts differ
    cause: str = ""  # of the divergence
    strict_right: bool | None = None  # None: the prompt has no reference
    right: bool | None = None

    @property
    def cell(self) -> Cell:
        return Cell(self.temperature, self.k, self.value)

    @property
    def speedup(self) -> float:
        """Tokens per second, the rule's over strict's."""
        return over(self.tokens_per_s, self.strict_tokens_per_s)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the store; what is no number is None there."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }


def read_result(stored: Mapping[str, Any]) -> Result:
    """The result of ``as_dict``. Raises ValueError for one that this version cannot read."""
    numbers = ("strict_tokens_per_s", "tokens_per_s", "tv_sum")
    try:
        return Result(**{**stored, **{name: NAN for name in numbers if stored[name] is None}})
    except (TypeError, KeyError) as error:
        raise ValueError(f"The sweep was saved by another version of this program; {error} does not fit.") from None


def result_of(
    comparison: str, cell: Cell, *, case: int, repeat: int, strict: Trace, rule: Trace, reference: str = ""
) -> Result:
    """What one comparison says; both traces are of completed runs."""
    parted = first_divergence(strict, rule)
    return Result(
        comparison=comparison,
        case=case,
        repeat=repeat,
        temperature=cell.temperature,
        k=cell.k,
        value=cell.value,
        strict_tokens_per_s=strict.summary.tokens_per_s,
        tokens_per_s=rule.summary.tokens_per_s,
        strict_tokens=strict.summary.new_tokens,
        tokens=rule.summary.new_tokens,
        strict_steps=strict.summary.steps,
        steps=rule.summary.steps,
        relaxed=rule.summary.relaxed,
        tv_sum=rule.summary.tv_sum,
        divergence=parted.position if parted else None,
        cause=str(parted.cause) if parted else "",
        strict_right=score(strict.text, reference) if reference else None,
        right=score(rule.text, reference) if reference else None,
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the ends of its interval; all nan where nothing was measured."""

    value: float = NAN
    low: float = NAN
    high: float = NAN


@dataclass(frozen=True, slots=True)
class Point:
    """One setting over all its comparisons; numbers of nothing are nan."""

    cell: Cell
    n: int  # comparisons
    speedup: Interval  # median of the paired ratios of tokens/s, and their quartiles
    tokens_per_s: float  # median
    strict_tokens_per_s: float
    tau: float  # all new tokens / all steps
    strict_tau: float
    tau_ratio: float
    differ: Interval  # share of comparisons whose texts differ in any token; Wilson
    divergence: float  # median first differing position, over those that differ
    relaxed_share: float  # relaxed / new tokens
    tv: float  # mean total variation a token
    length_ratio: float  # all new tokens, the rule's over strict's
    scored: int  # comparisons with a reference
    score: Interval  # share right; Wilson
    strict_score: Interval

    @property
    def score_loss(self) -> float:
        """Share right under strict − under the rule: negative where the rule did better."""
        return self.strict_score.value - self.score.value


def points(plan: Plan, results: Sequence[Result]) -> tuple[Point, ...]:
    """Every setting of the plan in its order, also those that nothing was measured of yet."""
    by_cell: dict[Cell, list[Result]] = {cell: [] for cell in plan.cells}
    for result in results:
        by_cell[result.cell].append(result)
    return tuple(_point(cell, found) for cell, found in by_cell.items())


def _point(cell: Cell, results: Sequence[Result]) -> Point:
    tokens, strict_tokens = _total(results, "tokens"), _total(results, "strict_tokens")
    tau, strict_tau = over(tokens, _total(results, "steps")), over(strict_tokens, _total(results, "strict_steps"))
    parted = [result.divergence for result in results if result.divergence is not None]
    low, speedup, high = quartiles([result.speedup for result in results if not math.isnan(result.speedup)])
    scored = [result for result in results if result.right is not None]
    return Point(
        cell=cell,
        n=len(results),
        speedup=Interval(speedup, low, high),
        tokens_per_s=quartiles([result.tokens_per_s for result in results])[1],
        strict_tokens_per_s=quartiles([result.strict_tokens_per_s for result in results])[1],
        tau=tau,
        strict_tau=strict_tau,
        tau_ratio=over(tau, strict_tau),
        differ=_share(len(parted), len(results)),
        divergence=quartiles(parted)[1],
        relaxed_share=over(_total(results, "relaxed"), tokens),
        tv=over(_total(results, "tv_sum"), tokens),
        length_ratio=over(tokens, strict_tokens),
        scored=len(scored),
        score=_share(sum(bool(result.right) for result in scored), len(scored)),
        strict_score=_share(sum(bool(result.strict_right) for result in scored), len(scored)),
    )


def _total(results: Sequence[Result], name: str) -> float:
    return math.fsum(getattr(result, name) for result in results)


def _share(part: int, whole: int) -> Interval:
    return Interval(over(part, whole), *wilson(part, whole))
