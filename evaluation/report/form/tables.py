"""The further tables of a report: speed, all scores, likeness to strict, acceptance by position, votes. Knows no page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evaluation.format import MISSING, count, number
from evaluation.report.form.blocks import Block, Cell, Head, Paragraph, Section, Table
from evaluation.report.form.cells import (
    amount,
    difference_cell,
    mean_cell,
    percent,
    signed,
    spread,
    test_cells,
    times,
    verdict_cell,
)
from evaluation.report.values import Interval, Measured, Report, VoteRow

Column = tuple[Head, Callable[[Measured], Cell]]
SPEED: tuple[Column, ...] = (
    (Head("tokens/s", "all new tokens / all seconds"), lambda m: spread(m.tokens_per_s)),
    (
        Head("ratio of means", "all tokens / all seconds, over the same of none", "Speed-up over none"),
        lambda m: times(m.speedup),
    ),
    (
        Head("mean of ratios", "mean over runs of tokens/s over none's", "Speed-up over none"),
        lambda m: times(m.speedup_mean),
    ),
    (
        Head("ratio of means", "over strict with the same drafts", "Speed-up over strict"),
        lambda m: times(m.speedup_strict),
    ),
    (
        Head("mean of ratios", "over strict with the same drafts", "Speed-up over strict"),
        lambda m: times(m.speedup_strict_mean),
    ),
    (Head("τ", "all new tokens / all steps"), lambda m: spread(m.tau)),
    (Head("τ ratio", "over strict's"), lambda m: times(m.tau_ratio)),
    (Head("Accepted", "kept drafts / drafted"), lambda m: Cell(percent(m.acceptance_rate))),
    (
        Head("Relaxed", "tokens kept only because they were forgiven / new tokens"),
        lambda m: Cell(percent(m.relaxed_share)),
    ),
    (Head("Length", "all new tokens over strict's: longer texts flatter tokens/s"), lambda m: times(m.length_ratio)),
    (Head("Cut", "share of runs that ended at the token limit"), lambda m: Cell(percent(m.unended))),
)
LIKENESS: tuple[Column, ...] = (
    (Head("Same as strict", "share of runs with the same tokens; Wilson"), lambda m: spread(m.same, percent)),
    (Head("Same as none", "share of runs with the tokens of decoding without drafts; Wilson"), lambda m: spread(m.same_as_none, percent)),
    (Head("First difference", "output position, from 0: median and quartiles over the runs that differ"), lambda m: spread(m.divergence)),
    (Head("BLEU", "strict's text as reference, 0 to 1"), lambda m: spread(m.bleu)),
    (Head("chrF", "strict's text as reference, 0 to 1"), lambda m: spread(m.chrf)),
    (Head("ROUGE-L", "strict's text as reference, 0 to 1"), lambda m: spread(m.rouge_l)),
    (Head("TV a run", "total variation of the emitted tokens' law from p, summed over a run; mean"), lambda m: spread(m.tv)),
    (Head("TV a token", "the same / new tokens"), lambda m: Cell(number(m.tv_token))),
    (Head("ln p a token", "log-likelihood under the target, nats"), lambda m: spread(m.log_likelihood)),
    (Head("− strict's", "nats a token"), lambda m: spread(m.log_likelihood_difference, signed)),
)  # fmt: skip
_SETTING = (
    Head("Rule"),
    Head("Drafter"),
    Head("Group", "suite, or suite/category"),
    Head("T", "temperature"),
    Head("n", "prompts × seeds"),
)


def speed_section(report: Report) -> Section:
    lead = "The ratio of means says how long the whole work takes, the mean of ratios what a single answer gains."
    return Section("speed", "Speed", (_columns("Speed by group, temperature and lane", report, SPEED),), lead)


def likeness_section(report: Report) -> Section:
    lead = (
        "How near the texts are to strict's on the same prompt and seed, and how likely they are to the target itself."
    )
    return Section(
        "likeness",
        "Against strict’s texts",
        (_columns("Likeness by group, temperature and lane", report, LIKENESS),),
        lead,
    )


def _columns(label: str, report: Report, columns: Sequence[Column]) -> Block:
    rows = tuple((*_setting(report, row), *(write(row) for _, write in columns)) for row in report.measured)
    return _or_nothing(Table(label, (*_SETTING, *(head for head, _ in columns)), rows))


def _setting(report: Report, row: Measured) -> tuple[Cell, ...]:
    lane = report.plan.lanes[row.lane]
    return Cell(lane.name), Cell(lane.drafts or MISSING), Cell(row.group), Cell(f"{row.temperature:g}"), amount(row)


def _or_nothing(table: Table) -> Block:
    return table if table.rows else Paragraph("Nothing was measured yet.", "note")


_SCORES = (
    Head("Metric"), Head("Score"), Head("Strict"), Head("Recovery", "over strict with the same drafts"),
    Head("Bootstrap", "recovery with the paired bootstrap's interval"), Head("Over none"),
    Head("Difference", "score − strict's"), Head("Lost / gained", "answers right under strict only, and under the rule only"),
    Head("McNemar p", "exact; under it by sign flips of whole prompts, and after Holm's correction"), Head("Verdict"),
)  # fmt: skip


def scores_section(report: Report) -> Section:
    """Every metric of every group, categories too."""
    rows = tuple(
        (
            *_setting(report, row), Cell(score.metric), mean_cell(score.value, score), mean_cell(score.baseline, score),
            spread(score.recovery, percent),
            spread(score.recovery_bootstrap, percent), spread(score.recovery_none, percent), difference_cell(score), *test_cells(score),
            verdict_cell(score.verdict),
        )
        for row in report.measured
        for score in row.scores.values()
    )  # fmt: skip
    table = Table("Scores by group, temperature, lane and metric", (*_SETTING, *_SCORES), rows)
    return Section("scores", "All scores", (_or_nothing(table),), "Every metric, categories of a suite included.")


def position_section(report: Report) -> Section:
    """Acceptance by draft position."""
    drafting = [row for row in report.measured if row.acceptance_by_position]
    deepest = max((len(row.acceptance_by_position) for row in drafting), default=0)
    heads = (*_SETTING, *(Head(str(place), f"draft position {place}") for place in range(1, deepest + 1)))
    rows = tuple(
        (*_setting(report, row), *(Cell(percent(value)) for value in row.acceptance_by_position), *_blank(row, deepest))
        for row in drafting
    )
    lead = "Share of steps that kept a token at a draft position, of the steps that drafted one there."
    return Section(
        "positions", "Acceptance by position", (_or_nothing(Table("Acceptance by draft position", heads, rows)),), lead
    )


def _blank(row: Measured, deepest: int) -> list[Cell]:
    return [Cell(MISSING)] * (deepest - len(row.acceptance_by_position))


def vote_section(report: Report) -> Section | None:
    """Votes of people and of a language model; None where there are none."""
    kinds = (("People, blind, on the same models", report.votes), ("A language model, both orders", report.judged))
    tables = tuple(_votes(label, rows) for label, rows in kinds if rows)
    if not tables:
        return None
    lead = (
        "Between a rule and strict; the share is of the votes that chose one of the two, with Wilson's 95 % interval."
    )
    return Section("votes", "Votes", tables, lead)


def _votes(label: str, rows: Sequence[VoteRow]) -> Table:
    heads = (Head("Rule"), Head("For the rule"), Head("For strict"), Head("Neither"), Head("Share"))
    return Table(
        label,
        heads,
        tuple(
            (Cell(row.rule), Cell(count(row.wins)), Cell(count(row.losses)), Cell(count(row.ties)), _share(row.share))
            for row in rows
        ),
    )


def _share(interval: Interval) -> Cell:
    return spread(interval, percent)
