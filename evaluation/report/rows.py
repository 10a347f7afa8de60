"""The rows of a report beside the metrics of its lanes. What is declared as a column is in the table
of the rows, in this order; intervals of shares and means are by prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from display.format import (
    MISSING,
    count,
    duration,
    number,
    percent,
    points,
    probability,
    ratio,
    signed,
)
from display.names import drafts_label
from evaluation.plan.lane import Lane
from evaluation.plan.plan import Plan
from evaluation.report.metrics import column
from evaluation.statistics import Interval

PROPERTIES = {
    "r": "r = z₂/z₁",
    "gap": "gap z₁ − z₂",
    "entropy": "entropy of p, nats",
    "position": "position",
    "kind": "kind",
}
TTFT = "First token"
TWO_BEST = "the two best"  # tokens among which random relaxes


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
    # Ids of the baseline's and the lane's run with the largest loss, else the earliest difference, of
    # every turn.
    turns: tuple[tuple[str, str], ...] = ()

    @property
    def worst(self) -> tuple[str, str]:
        """Those of the first turn."""
        return next(iter(self.turns), ("", ""))


class TableRow:
    """A row of a table whose columns are declared."""

    __slots__ = ()

    def setting(self, plan: Plan) -> dict[str, str]:  # noqa: ARG002
        """Return the first cells of its table by their heads."""
        return {}


@dataclass(frozen=True, slots=True)
class VoteRow(TableRow):
    """Human votes between a rule and strict on the same models. ``share``: of those that chose one
    of the two; Wilson."""

    rule: str = column("Rule", str)
    wins: int = column("For the rule", count)
    losses: int = column("For strict", count)
    ties: int = column("Neither", count)  # both bad included
    share: Interval = column("Share", percent)


@dataclass(frozen=True, slots=True)
class LoadRow(TableRow):
    """One lane at one temperature with a number of requests in flight at a server, or of runs in a
    batch, over the tasks that every lane completed.

    Rates of servers are load × number / sum of the latencies, and nan with two of them;
    those of a batch number / sum of the runs' parts of its time. ``over_none``: the rate over that
    of the lane none with as many. Times are of all turns together, and nan in a batch.
    """

    temperature: float
    lane: Lane
    load: int = column("At once", count, "requests in flight, or runs of a batch")
    tokens_per_s: Interval = column("Tokens/s")
    over_none: Interval = column("Over none", ratio, "with as many at once")
    answers: int = column("Answers", count, default=0)
    answers_per_s: float = column("Answers/s", default=math.nan)
    ttft_s: float = column("median", duration, "of the first turn", TTFT, math.nan)
    ttft_95_s: float = column("95 %", duration, "95th percentile", TTFT, math.nan)
    latency_s: float = column("median", duration, group="Answer", default=math.nan)
    latency_95_s: float = column("95 %", duration, "95th percentile", "Answer", math.nan)

    def setting(self, plan: Plan) -> dict[str, str]:
        return {"Rule": plan.title(self.lane), "T": f"{self.temperature:g}"}


@dataclass(frozen=True, slots=True)
class SettingRow(TableRow):
    """What was measured of a lane at a temperature. Its table begins with name, drafter, group and
    temperature. ``first``: head of the names; ``group``: empty where all items are meant."""

    first: ClassVar[str] = "Rule"
    lane: int
    temperature: float
    group: str

    def name(self, plan: Plan) -> str:
        return plan.lanes[self.lane].title

    def setting(self, plan: Plan) -> dict[str, str]:
        names = {
            self.first: self.name(plan),
            "Drafter": drafts_label(plan.lanes[self.lane].drafts) or MISSING,
        }
        return names | ({"On": self.group} if self.group else {}) | {"T": f"{self.temperature:g}"}


@dataclass(frozen=True, slots=True)
class FollowedRow(SettingRow):
    """Relaxed tokens of a lane at a temperature that were followed (``mars eval follow``): all of
    them, or those with similar values of a property."""

    x: float  # mean of the values
    by: str = column("Property", PROPERTIES.__getitem__)  # empty: all of them
    part: str = column("Values", str)
    tokens: int = column("Tokens", count)
    prompts: int = column("Prompts", count)
    # share whose answer is another than strict's from there, of known ones
    changed: Interval = column("Changed", percent)
    meets: Interval = column("Meets", percent)  # share after which both texts meet again
    meets_after: Interval = column("After")  # tokens until then: median and quartiles
    # mean ln p of the text after the token − that of strict's, nats
    logprob: Interval = column("ln p", signed)


@dataclass(frozen=True, slots=True)
class PlaceboRow(SettingRow):
    """A rule beside a placebo of it, on the runs that have both. ``relaxed``, ``shortfall``: tokens
    a text; ``same``: share of texts that are strict's own. Of draws the mean. ``ratio`` and what
    follows: by the main metric."""

    among: str = column("Among", str)
    draws: int = column("Draws", count)
    runs: int = column("Runs", count)
    rule_relaxed: float = column("rule", number, group="Relaxed a text")
    relaxed: float = column("random", number, group="Relaxed a text")
    # of what the rule relaxed; nan in studies that were not exact
    shortfall: float = column("shortfall", number, group="Relaxed a text")
    rule_same: float = column("rule", percent, group="Same as strict")
    same: float = column("random", percent, group="Same as strict")
    ratio: Interval = column("Random / rule", percent, "mean scores")
    outcome: str = column("Outcome", lambda outcome: outcome or MISSING)
    p_differ: float = column("p equal", probability)
    p_region: float = column("p region", probability)
    possible: float = column("Possible", percent, "largest difference in the interval")


@dataclass(frozen=True, slots=True)
class SharpenedRow(SettingRow):
    """A rule beside strict at a lower temperature whose texts are as likely a token. nan where they
    are likelier than at every measured one; strict itself where they are less likely than its."""

    prompts: int = column("Prompts", count)
    log_likelihood: Interval = column("ln p")  # of a token of the rule's texts, nats
    scale: Interval = column("As likely at T ×")  # at which strict's texts are as likely
    recovery: Interval = column("rule", percent, group="Recovery")
    # of strict at that temperature
    alone: Interval = column("lower temperature", percent, group="Recovery")
    difference: Interval = column("Difference", points, "rule − lower temperature, by prompt")


@dataclass(frozen=True, slots=True)
class CurveRow(SettingRow):
    """Two rules at one τ on the curves through strict and their settings. ``lane``: the first
    setting of the first."""

    first: ClassVar[str] = "Rules"
    rule: str
    other: str
    prompts: int = column("Prompts", count)
    tau: float = column("τ")
    score: Interval = column("first", percent, group="Score")
    other_score: Interval = column("second", percent, group="Score")
    difference: Interval = column("Difference", points, "first − second, by prompt")

    def name(self, plan: Plan) -> str:  # noqa: ARG002
        return f"{self.rule}, {self.other}"


@dataclass(frozen=True, slots=True)
class LengthRow(SettingRow):
    """A lane on prompts of one length, over the tasks that all lanes completed. ``group``: a
    category, or empty."""

    length: int = column("Prompt", count, "tokens, at most")
    prompts: int = column("Prompts", count)
    runs: int = column("Runs", count)
    read: float = column("Prompt tokens", lambda tokens: count(round(tokens)), "of a run, mean")
    tau: Interval = column("τ")
    tokens_per_s: Interval = column("Tokens/s")
    over_none: Interval = column("Over none", ratio, "tokens/s over none's at this length")


OTHERS, NEAR = "others", "others of its ranks"


@dataclass(frozen=True, slots=True)
class InterventionRow(SettingRow):
    """Tokens that strict rejected and that were relaxed alone (``Plan.interventions``): all, those
    of some ranks, or those that a rule would relax. Means are minus strict's. ``beside``: minus the
    ``OTHERS`` of the same text where the rule decides, or ``NEAR``, those of them that have the
    ranks that the rule admits."""

    first: ClassVar[str] = "Tokens of"
    title: str
    rule: int | None  # its lane
    beside: str = column("Minus", lambda beside: beside or MISSING)
    tokens: int = column("Tokens", count)
    prompts: int = column("Prompts", count)
    score: Interval = column("Score", points)
    changed: Interval = column("Changed", points)
    logprob: Interval = column("ln p", signed)  # as in FollowedRow
    meets: Interval = column("Meets", points)
    meets_after: Interval = column("After")

    def name(self, plan: Plan) -> str:  # noqa: ARG002
        return self.title
