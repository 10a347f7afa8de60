"""The values of a report: computed by evaluation.report.measure, displayed by the page, HTML, Markdown
and CSV.

Every number comes with its number of prompts and seeds. Undefined numbers are nan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NamedTuple

from display.format import percent, ratio, signed
from evaluation.advise.certificate import Certificate, LaneDifference
from evaluation.recovery import PlaceboTest, RecoveryOutcome
from evaluation.report.metrics import Mean, Pooled, Quartiles, ReportMetric, ShareOfRuns
from evaluation.statistics import Interval, McNemar
from evaluation.study.plan import Lane, Plan

ALL = "all"  # the group of all suites together
BLANK = Interval()
TEXTS = "strict's text as reference, 0 to 1"
PER_RIGHT = "Per right answer"


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
    recovery_bootstrap: Interval = BLANK  # its ends from the paired bootstrap, for comparison
    recovery_template: Interval = BLANK  # and where prompts of one template hang together
    placebo: PlaceboTest | None = None  # against the lanes that imitate this one among all tokens
    ranked: PlaceboTest | None = None  # and among those of the ranks that it admits


@dataclass(frozen=True, slots=True)
class Measured:
    """One lane at one temperature on one group of items: a suite, a category of a suite
    (``suite/category``), or all. Every field with a ``ReportMetric`` is computed, displayed and
    exported as that says."""

    group: str
    temperature: float
    lane: int
    prompts: int
    seeds: int
    runs: int  # completed in all lanes of the paired comparison
    failed: int
    tokens_per_s: Interval = ReportMetric(
        "tokens/s",
        "all new tokens / all seconds",
        Pooled("new_tokens", "wall_s", known=True),
    ).field
    speedup: Interval = ReportMetric(
        "ratio of means",
        "all tokens / all seconds, over the same of none",
        Pooled("new_tokens", "wall_s", "none", known=True),
        ratio,
        group="Speed-up over none",
    ).field
    speedup_mean: Interval = ReportMetric(
        "mean of ratios",
        "mean over runs of tokens/s over none's",
        Mean("new_tokens", "wall_s", "none"),
        ratio,
        group="Speed-up over none",
    ).field
    speedup_strict: Interval = ReportMetric(
        "ratio of means",
        "over strict with the same drafts",
        Pooled("new_tokens", "wall_s", "strict", known=True),
        ratio,
        group="Speed-up over strict",
    ).field
    speedup_strict_mean: Interval = ReportMetric(
        "mean of ratios",
        "over strict with the same drafts",
        Mean("new_tokens", "wall_s", "strict"),
        ratio,
        group="Speed-up over strict",
    ).field
    tau: Interval = ReportMetric(
        "τ",
        "all new tokens / all steps: as EAGLE, with the bonus token, of all requests together",
        Pooled("new_tokens", "steps"),
        panel="τ",
    ).field
    tau_vllm: Interval = ReportMetric(
        "as vLLM",
        "1 + accepted drafts / steps that drafted, of all requests together",
        Pooled("verified", "draft_steps"),
        group="τ elsewhere",
    ).field
    tau_specforge: Interval = ReportMetric(
        "as SpecForge",
        "mean over requests of new tokens / steps, so that a short answer counts as much as a long "
        "one",
        Mean("new_tokens", "steps"),
        group="τ elsewhere",
    ).field
    tau_ratio: Interval = ReportMetric(
        "τ ratio",
        "over strict's",
        Pooled("new_tokens", "steps", "strict"),
        ratio,
        panel="τ ratio",
    ).field
    acceptance_rate: Interval = ReportMetric(
        "Accepted",
        "accepted and relaxed drafts / drafted",
        Pooled("kept", "drafted"),
        percent,
    ).field
    relaxed_share: Interval = ReportMetric(
        "Relaxed",
        "tokens accepted only because the rule is relaxed / new tokens",
        Pooled("relaxed", "new_tokens"),
        percent,
        panel="Relaxed tokens",
        better=0,
    ).field
    length_ratio: Interval = ReportMetric(
        "Length",
        "all new tokens over strict's: longer texts raise tokens/s",
        Pooled("new_tokens", over="strict"),
        ratio,
        better=0,
    ).field
    tokens_right: Interval = ReportMetric(
        "tokens",
        "all new tokens / all scores",
        Pooled("new_tokens", "right", known=True),
        better=-1,
        group=PER_RIGHT,
        meter=True,
    ).field
    reasoning_right: Interval = ReportMetric(
        "of the reasoning",
        "tokens up to the end of the reasoning / all scores",
        Pooled("reasoning_tokens", "right", known=True),
        better=-1,
        group=PER_RIGHT,
        meter=True,
    ).field
    answer_right: Interval = ReportMetric(
        "of the answer",
        "tokens after it / all scores",
        Pooled("answer_tokens", "right", known=True),
        better=-1,
        group=PER_RIGHT,
        meter=True,
    ).field
    seconds_right: Interval = ReportMetric(
        "seconds",
        "all seconds / all scores",
        Pooled("wall_s", "right", known=True),
        better=-1,
        group=PER_RIGHT,
        meter=True,
    ).field
    reasoning_s_right: Interval = ReportMetric(
        "s of the reasoning",
        "seconds up to its end / all scores",
        Pooled("reasoning_s", "right", known=True),
        better=-1,
        group=PER_RIGHT,
        meter=True,
    ).field
    unanswered: Interval = ReportMetric(
        "Without answer",
        "share of runs whose last turn has no text after its reasoning",
        Pooled("unanswered", known=True),
        percent,
        better=-1,
        meter=True,
    ).field
    unended: Interval = ReportMetric(
        "Cut",
        "share of runs that ended at the token limit",
        Pooled("cut"),
        percent,
        better=-1,
        meter=True,
    ).field
    looped: Interval = ReportMetric(
        "Loops",
        "share of runs whose end repeats a span three times or more, at least 24 tokens",
        Pooled("looped", known=True),
        percent,
        better=-1,
        meter=True,
    ).field
    loop_relaxed: Interval = ReportMetric(
        "begun by relaxing",
        "share of the runs with a loop whose first repeat begins with a relaxed token",
        Pooled("loop_relaxed", "looped", known=True),
        percent,
        better=-1,
        meter=True,
    ).field
    loops_left: Interval = ReportMetric(
        "Loops left",
        "a run: such a span within the text, at most 64 tokens long, that goes on otherwise",
        Pooled("loops_left", known=True),
        better=0,
        meter=True,
    ).field
    loops_left_by_bonus: Interval = ReportMetric(
        "by a bonus token",
        "share of the loops that are left with the token after a draft that was kept whole",
        Pooled("loops_left_by_bonus", "loops_left", known=True),
        percent,
        better=0,
        meter=True,
    ).field
    same: Interval = ReportMetric(
        "Same as strict",
        "share of runs with the same tokens; Wilson",
        ShareOfRuns("same"),
        percent,
        panel="Texts equal to strict's",
        likeness=True,
    ).field
    same_as_none: Interval = ReportMetric(
        "Same as none",
        "share of runs with the tokens of decoding without drafts; Wilson",
        ShareOfRuns("same_as_none"),
        percent,
        likeness=True,
    ).field
    divergence: Interval = ReportMetric(
        "First difference",
        "output position, from 0: median and quartiles over the runs that differ",
        Quartiles("divergence"),
        likeness=True,
        better=0,
    ).field
    bleu: Interval = ReportMetric("BLEU", TEXTS, Mean("bleu"), likeness=True).field
    chrf: Interval = ReportMetric("chrF", TEXTS, Mean("chrf"), likeness=True).field
    rouge_l: Interval = ReportMetric("ROUGE-L", TEXTS, Mean("rouge_l"), likeness=True).field
    tv: Interval = ReportMetric(
        "TV per run",
        "total variation of the emitted tokens' distribution from p, summed over a run; mean; –: "
        "not known",
        Mean("tv_sum"),
        better=-1,
        shift=True,
        likeness=True,
    ).field
    tv_token: Interval = ReportMetric(
        "TV per token",
        "the same / new tokens",
        Pooled("tv_sum", "new_tokens"),
        better=-1,
        panel="TV per token",
        shift=True,
        likeness=True,
    ).field
    overshoot: Interval = ReportMetric(
        "Overshoot",
        "largest P(x)/p(x) of a run, P: the emitted tokens' distribution; mean over runs, ∞ if it "
        "is that of one",
        Mean("overshoot_max"),
        better=-1,
        likeness=True,
    ).field
    log_likelihood: Interval = ReportMetric(
        "ln p per token",
        "log-likelihood under the target, nats",
        Pooled("log_likelihood", "new_tokens", known=True),
        likeness=True,
    ).field
    log_likelihood_difference: Interval = ReportMetric(
        "− strict's",
        "nats per token",
        Pooled("log_likelihood", "new_tokens", "strict", minus=True, known=True),
        signed,
        likeness=True,
    ).field
    acceptance_by_position: tuple[float, ...] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def main_score(self) -> Score | None:
        """The first metric of its suite, None without a metric."""
        return next(iter(self.scores.values()), None)

    def speedup_over(self, plan: Plan) -> Interval:
        """Return the speed-up over none; over strict if the plan has no lane none."""
        return self.speedup_strict if plan.none is None else self.speedup


# By field of Measured, in its order.
METRICS: Mapping[str, ReportMetric] = {
    each.name: each.metadata["metric"] for each in fields(Measured) if each.metadata
}


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One item under one lane, with all its seeds at one temperature: a row of the table of
    prompts."""

    suite: str
    category: str
    item: str  # id
    prompt: str  # beginning of the first turn
    temperature: float
    lane: int
    runs: int
    differ: int  # runs whose tokens are not the baseline's
    gained: float  # main score summed over runs that scored higher than the baseline's
    lost: float  # and lower, as a positive number
    divergence: int | None  # earliest
    tv_sum: float  # mean over runs
    length_ratio: float
    # Ids of the baseline's and the lane's run with the largest loss, else the earliest difference:
    # first turn, then every turn.
    worst: tuple[str, str]
    turns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class VoteRow:
    """Human votes between a rule and strict on the same models. ``share``: of those that chose one
    of the two; Wilson."""

    rule: str
    wins: int
    losses: int
    ties: int  # both bad included
    share: Interval


class LoadRow(NamedTuple):
    """One lane at one temperature with a number of requests in flight at a server, or of runs in a
    batch, over the tasks that every lane completed; or what is predicted of it.

    Rates of servers are load × number / sum of the latencies, and nan with two of them;
    those of a batch number / sum of the runs' parts of its time. ``over_none``: the rate over that
    of the lane none with as many. Times are seconds of all turns together, as median and 95th
    percentile, and nan in a batch.
    """

    temperature: float
    load: int
    lane: Lane
    tokens_per_s: Interval
    over_none: Interval
    answers: int = 0
    answers_per_s: float = math.nan
    ttft_s: tuple[float, float] = (math.nan, math.nan)  # of the first turn
    latency_s: tuple[float, float] = (math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class FollowedRow:
    """Relaxed tokens of a lane at a temperature that were followed (``mars eval follow``): all of
    them, or those with similar values of a property. Intervals of shares and means are by
    prompt."""

    lane: int
    temperature: float
    by: str  # empty: all; else r, gap, entropy, position or kind
    part: str  # the values, as text
    x: float  # their mean; of a kind its number
    tokens: int
    prompts: int
    changed: Interval  # share whose answer is another than strict's from there, of known ones
    meets: Interval  # share after which both texts meet again
    meets_after: Interval  # tokens until then: median and quartiles
    logprob: Interval  # mean ln p of the text after the token − that of strict's, nats


@dataclass(frozen=True, slots=True)
class PlaceboRow:
    """A rule beside a placebo of it, on the runs that have both. ``relaxed``, ``shortfall``: tokens
    a text; ``same``: share of texts that are strict's own. Of draws the mean."""

    group: str
    temperature: float
    lane: int
    placebo: int  # its lane
    runs: int
    rule_relaxed: float
    relaxed: float
    shortfall: float  # of what the rule relaxed; nan in studies that were not exact
    rule_same: float
    same: float
    test: PlaceboTest | None  # by the main metric

    @property
    def exact(self) -> bool:
        """Whether the placebo relaxes as many tokens of each text, and not of all in the mean."""
        return not math.isnan(self.shortfall)


@dataclass(frozen=True, slots=True)
class SharpenedRow:
    """A rule beside strict at a lower temperature whose texts are as likely a token. nan where they
    are likelier than at every measured one; strict itself where they are less likely than its."""

    group: str
    temperature: float
    lane: int
    prompts: int
    log_likelihood: Interval  # of a token of the rule's texts, nats
    scale: Interval  # of the temperature, at which strict's texts are as likely
    recovery: Interval
    alone: Interval  # recovery of strict at that temperature
    difference: Interval  # of the scores, the rule's minus that


@dataclass(frozen=True, slots=True)
class CurveRow:
    """Two rules at one τ on the curves through strict and their settings."""

    group: str
    temperature: float
    drafts: str
    rule: str
    other: str
    prompts: int
    tau: float
    score: Interval
    other_score: Interval
    difference: Interval  # the rule's minus the other's


ALONE = ("score", "changed", "logprob")  # fields of InterventionRow that are compared


@dataclass(frozen=True, slots=True)
class InterventionRow:
    """Tokens that strict rejected and that were relaxed alone (``Plan.interventions``): all, those
    of some ranks, or those that a rule would relax. Intervals are by prompt; a score and ``changed``
    are minus strict's. ``…_others``: minus the others of the same text where the rule decides;
    ``…_near``: minus those of them that have the ranks that the rule admits."""

    lane: int  # strict
    temperature: float
    name: str
    rule: int | None  # its lane
    tokens: int
    prompts: int
    score: Interval
    changed: Interval
    meets: Interval
    meets_after: Interval  # tokens until both texts meet again: median and quartiles
    logprob: Interval  # mean ln p of the text after the token − that of strict's, nats
    score_others: Interval
    changed_others: Interval
    logprob_others: Interval
    score_near: Interval
    changed_near: Interval
    logprob_near: Interval


@dataclass(frozen=True, slots=True)
class Report:
    """One study. ``measured``: groups × temperatures × lanes in the order of the plan, ``ALL`` last
    where there are several suites."""

    id: str
    plan: Plan
    created_at: datetime
    tasks_done: int
    results: int  # lanes of tasks that were saved
    environment: Mapping[str, str]  # of the runs; all values where they differ
    measured: tuple[Measured, ...]
    prompts: tuple[PromptRow, ...]  # worst first
    warnings: tuple[str, ...]  # one sentence each
    votes: tuple[VoteRow, ...] = ()
    judged: tuple[VoteRow, ...] = ()  # votes of a language model, both orders
    loads: tuple[LoadRow, ...] = ()  # of a study on servers or in batches
    followed: tuple[FollowedRow, ...] = ()
    interventions: tuple[InterventionRow, ...] = ()
    placebos: tuple[PlaceboRow, ...] = ()
    sharpened: tuple[SharpenedRow, ...] = ()
    curves: tuple[CurveRow, ...] = ()
    certificate: Certificate | None = None  # of a study for advice
    differences: tuple[LaneDifference, ...] = ()  # of rules at equal τ

    @property
    def throughputs(self) -> tuple[LoadRow, ...]:
        """Of a study that compares batches."""
        return self.loads if self.plan.loads else ()

    @property
    def drafts(self) -> tuple[str, ...]:
        """The drafters of the study by name, in the order of the plan."""
        return tuple(dict.fromkeys(lane.drafts for lane in self.plan.lanes if lane.drafts))

    @property
    def suite_groups(self) -> tuple[str, ...]:
        """Groups of complete suites, and of all suites; without categories."""
        names = {suite.name for suite in self.plan.suites} | {ALL}
        return tuple(
            group for group in dict.fromkeys(row.group for row in self.measured) if group in names
        )
