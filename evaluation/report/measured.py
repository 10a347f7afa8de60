"""The numbers of one lane in a report. Undefined numbers are nan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from display.format import percent, ratio, signed
from evaluation.plan.plan import Plan
from evaluation.recovery import PlaceboTest, RecoveryOutcome
from evaluation.report.metrics import (
    Mean,
    Pooled,
    Quartiles,
    ReportMetric,
    ShareOfRuns,
    declared,
    metric,
)
from evaluation.statistics import Interval, McNemar

BLANK = Interval()
# Kinds of random relaxation, by whether it is among tokens of the ranks alone that the rule admits.
PLACEBOS = {"placebo": False, "ranked": True}
TEXTS = "strict's text as reference, 0 to 1"
over_none = partial(metric, write=ratio, group="Speed-up over none")
over_strict = partial(metric, write=ratio, group="Speed-up over strict")
cost = partial(metric, better=-1, table="costs")
per_right = partial(cost, group="Per right answer")
share = partial(cost, write=percent)
likeness = partial(metric, table="likeness")
shift = partial(likeness, better=-1)


@dataclass(frozen=True, slots=True)
class Score:
    """One metric of one lane. ``recovery``: its mean over the baseline's (and over none's);
    ``difference``: mean − the baseline's.

    The intervals of ``value`` and ``baseline``: Wilson where binary, else bootstrap; of
    ``recovery`` and ``recovery_none``: score.
    """

    metric: str
    binary: bool  # right or wrong
    scored: int  # runs that could be scored, paired with the baseline
    value: Interval
    baseline: Interval
    recovery: Interval
    recovery_none: Interval
    difference: Interval
    mcnemar: McNemar | None  # for binary metrics; None for a baseline and placebos
    verdict: RecoveryOutcome | None  # at the margin; None for a baseline, none and placebos
    recovery_template: Interval = BLANK  # where prompts of one template hang together
    # by kind of PLACEBOS, against the lanes that imitate this one
    placebos: Mapping[str, PlaceboTest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    """One lane at one temperature on one group of items: a suite, a category of a suite
    (``suite/category``), or all. Every metric is computed, displayed and exported as it is declared
    here."""

    group: str
    temperature: float
    lane: int
    prompts: int
    seeds: int
    runs: int  # completed in all lanes of the paired comparison
    failed: int
    tokens_per_s: Interval = metric(
        "tokens/s", "all new tokens / all seconds", Pooled("new_tokens", "wall_s", known=True)
    )
    speedup: Interval = over_none(
        "ratio of means",
        "all tokens / all seconds, over the same of none",
        Pooled("new_tokens", "wall_s", "none", known=True),
    )
    speedup_mean: Interval = over_none(
        "mean of ratios",
        "mean over runs of tokens/s over none's",
        Mean("new_tokens", "wall_s", "none"),
    )
    speedup_strict: Interval = over_strict(
        "ratio of means",
        "over strict with the same drafts",
        Pooled("new_tokens", "wall_s", "strict", known=True),
    )
    speedup_strict_mean: Interval = over_strict(
        "mean of ratios",
        "over strict with the same drafts",
        Mean("new_tokens", "wall_s", "strict"),
    )
    tau: Interval = metric(
        "τ",
        "all new tokens / all steps: as EAGLE, with the bonus token, of all requests together",
        Pooled("new_tokens", "steps"),
        panel="τ",
    )
    tau_vllm: Interval = metric(
        "as vLLM",
        "1 + accepted drafts / steps that drafted, of all requests together",
        Pooled("verified", "draft_steps"),
        group="τ elsewhere",
    )
    tau_specforge: Interval = metric(
        "as SpecForge",
        "mean over requests of new tokens / steps, so that a short answer counts as much as a long "
        "one",
        Mean("new_tokens", "steps"),
        group="τ elsewhere",
    )
    tau_ratio: Interval = metric(
        "τ ratio",
        "over strict's",
        Pooled("new_tokens", "steps", "strict"),
        ratio,
        panel="τ ratio",
    )
    acceptance_rate: Interval = metric(
        "Accepted",
        "accepted and relaxed drafts / drafted",
        Pooled("kept", "drafted"),
        percent,
    )
    relaxed_share: Interval = metric(
        "Relaxed",
        "tokens accepted only because the rule is relaxed / new tokens",
        Pooled("relaxed", "new_tokens"),
        percent,
        panel="Relaxed tokens",
        better=0,
    )
    length_ratio: Interval = metric(
        "Length",
        "all new tokens over strict's: longer texts raise tokens/s",
        Pooled("new_tokens", over="strict"),
        ratio,
        better=0,
    )
    tokens_right: Interval = per_right(
        "tokens", "all new tokens / all scores", Pooled("new_tokens", "right", known=True)
    )
    reasoning_right: Interval = per_right(
        "of the reasoning",
        "tokens up to the end of the reasoning / all scores",
        Pooled("reasoning_tokens", "right", known=True),
    )
    answer_right: Interval = per_right(
        "of the answer",
        "tokens after it / all scores",
        Pooled("answer_tokens", "right", known=True),
    )
    seconds_right: Interval = per_right(
        "seconds", "all seconds / all scores", Pooled("wall_s", "right", known=True)
    )
    reasoning_s_right: Interval = per_right(
        "s of the reasoning",
        "seconds up to its end / all scores",
        Pooled("reasoning_s", "right", known=True),
    )
    unanswered: Interval = share(
        "Without answer",
        "share of runs whose last turn has no text after its reasoning",
        Pooled("unanswered", known=True),
    )
    unended: Interval = share("Cut", "share of runs that ended at the token limit", Pooled("cut"))
    looped: Interval = share(
        "Loops",
        "share of runs whose end repeats a span three times or more, at least 24 tokens",
        Pooled("looped", known=True),
    )
    loop_relaxed: Interval = share(
        "begun by relaxing",
        "share of the runs with a loop whose first repeat begins with a relaxed token",
        Pooled("loop_relaxed", "looped", known=True),
    )
    loops_left: Interval = cost(
        "Loops left",
        "a run: such a span within the text, at most 64 tokens long, that goes on otherwise",
        Pooled("loops_left", known=True),
        better=0,
    )
    loops_left_by_bonus: Interval = share(
        "by a bonus token",
        "share of the loops that are left with the token after a draft that was kept whole",
        Pooled("loops_left_by_bonus", "loops_left", known=True),
        better=0,
    )
    same: Interval = likeness(
        "Same as strict",
        "share of runs with the same tokens; Wilson",
        ShareOfRuns("same"),
        percent,
        panel="Texts equal to strict's",
    )
    same_as_none: Interval = likeness(
        "Same as none",
        "share of runs with the tokens of decoding without drafts; Wilson",
        ShareOfRuns("same_as_none"),
        percent,
    )
    divergence: Interval = likeness(
        "First difference",
        "output position, from 0: median and quartiles over the runs that differ",
        Quartiles("divergence"),
        better=0,
    )
    bleu: Interval = likeness("BLEU", TEXTS, Mean("bleu"))
    chrf: Interval = likeness("chrF", TEXTS, Mean("chrf"))
    rouge_l: Interval = likeness("ROUGE-L", TEXTS, Mean("rouge_l"))
    tv: Interval = shift(
        "TV per run",
        "total variation of the emitted tokens' distribution from p, summed over a run; mean; –: "
        "not known",
        Mean("tv_sum"),
        shift=True,
    )
    tv_token: Interval = shift(
        "TV per token",
        "the same / new tokens",
        Pooled("tv_sum", "new_tokens"),
        panel="TV per token",
        shift=True,
    )
    overshoot: Interval = shift(
        "Overshoot",
        "largest P(x)/p(x) of a run, P: the emitted tokens' distribution; mean over runs, ∞ if it "
        "is that of one",
        Mean("overshoot_max"),
    )
    log_likelihood: Interval = likeness(
        "ln p per token",
        "log-likelihood under the target, nats",
        Pooled("log_likelihood", "new_tokens", known=True),
    )
    log_likelihood_difference: Interval = likeness(
        "− strict's",
        "nats per token",
        Pooled("log_likelihood", "new_tokens", "strict", minus=True, known=True),
        signed,
    )
    acceptance_by_position: tuple[float, ...] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def main_score(self) -> Score | None:
        """The first metric of its suite, None without a metric."""
        return next(iter(self.scores.values()), None)

    def setting(self, plan: Plan) -> str:
        """Return the title, with the suite and the temperature if the plan has several."""
        on = f" on {self.group}" if len(plan.suites) > 1 else ""
        at = f" at temperature {self.temperature:g}" if len(plan.temperatures) > 1 else ""
        return f"{plan.title(plan.lanes[self.lane])}{on}{at}"

    def speedup_over(self, plan: Plan) -> Interval:
        """Return the speed-up over none; over strict if the plan has no lane none."""
        return self.speedup_strict if plan.none is None else self.speedup


METRICS = declared(Measured, ReportMetric)
