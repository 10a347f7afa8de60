"""Whether a rule keeps the share of the baseline's score that the user demands, and how many prompts an answer needs. Knows no run."""

from __future__ import annotations

import math
from statistics import NormalDist

from evaluation.inference.ratio import Paired, Z, design_effect, null_deviation
from evaluation.report.values import Interval, Outcome, Verdict

POWER = 0.8
MOST_NEEDED = 1_000_000  # prompts; above that nothing is said


def verdict(recovery: Interval, pairs: Paired, margin: float) -> Verdict:
    """Supported where the whole 95 % interval is at ``margin`` or above, not supported where all of it is below: each errs in 2.5 %."""
    if recovery.low >= margin:
        return Verdict(margin, Outcome.SUPPORTED, None, _sentence(margin, "supported"))
    if recovery.high < margin:
        return Verdict(margin, Outcome.NOT_SUPPORTED, None, _sentence(margin, "not supported"))
    if not pairs.baseline.sum():
        return Verdict(margin, Outcome.TOO_FEW, None, _sentence(margin, "cannot be said, the baseline scored nothing"))
    needed = prompts_needed(pairs, margin)
    about = f"need about {needed:,}" if needed else "and so near the margin that no number would do"
    return Verdict(margin, Outcome.TOO_FEW, needed, _sentence(margin, f"too few prompts, {about}"))


def prompts_needed(pairs: Paired, margin: float) -> int | None:
    """Prompts like these for an answer with probability 80 %, if recovery is what was seen, 1 at most; rounded to two digits.

    N = n·((z₀.₉₇₅·s₀ + z₀.₈·s₁) / (R − margin·B))², with s₀ and s₁ the standard deviations of R − margin·B if recovery is the margin
    and as seen. None above a million.
    """
    rule, baseline = float(pairs.rule.sum()), float(pairs.baseline.sum())
    gained, lost = float(pairs.gained.sum()), float(pairs.lost.sum())
    distance = min(rule, baseline) - margin * baseline
    null = null_deviation(margin, rule - gained, gained, lost) * math.sqrt(design_effect(pairs))
    seen = float((pairs.rule - margin * pairs.baseline).std()) * math.sqrt(len(pairs.rule))
    reach = Z * null + NormalDist().inv_cdf(POWER) * seen
    if abs(distance) * math.sqrt(MOST_NEEDED) <= reach * math.sqrt(len(pairs.rule)):
        return None
    return max(len(pairs.rule) + 1, _rounded_up(len(pairs.rule) * (reach / distance) ** 2))


def _rounded_up(number: float) -> int:
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1) if number > 1 else 1
    return math.ceil(math.nextafter(number, 0) / unit) * int(unit)


def _sentence(margin: float, what: str) -> str:
    return f"recovery ≥ {100 * margin:g} %: {what}"
