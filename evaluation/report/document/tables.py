"""The tables of a report: the paper's own, speed, all scores, likeness to strict, acceptance by
position, votes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from display.blocks import (
    Block,
    Head,
    Paragraph,
    ReportTable,
    Section,
    TableCell,
)
from display.format import (
    MISSING,
    bounded,
    count,
    number,
    percent,
    plural,
    ratio,
    signed,
)
from evaluation.report.document import cells
from evaluation.report.document.cells import spread
from evaluation.report.metrics import ReportMetric
from evaluation.report.values import METRICS, Measured, Report, Score, VoteRow
from evaluation.statistics import Interval
from evaluation.study.plan import Lane


class LaneRow(NamedTuple):
    """A measured lane, with one of its metrics in tables of metrics."""

    measured: Measured
    lane: Lane
    score: Score | None = None


Column = tuple[Head, Callable[[LaneRow], TableCell]]


def make_table(label: str, columns: Sequence[Column], rows: Iterable[LaneRow]) -> ReportTable:
    """Return a table without the columns that have no value in any row."""
    lines = list(rows)
    written = [(head, [write(row) for row in lines]) for head, write in columns]
    known = [each for each in written if any(cell.text != MISSING for cell in each[1])]
    heads, cells = [head for head, _ in known], [column for _, column in known]
    return ReportTable(label, tuple(heads), tuple(zip(*cells, strict=True)))


def group_column(head: Head) -> Column:
    return head, lambda row: TableCell(row.measured.group)


def _column(name: str, metric: ReportMetric) -> Column:
    """Return the column of a metric with its interval; a TV is marked where it is an upper
    bound."""
    direction = {1: "; more is better", -1: "; less is better"}.get(metric.better, "")

    def cell(row: LaneRow) -> TableCell:
        value = spread(getattr(row.measured, name), metric.write)
        if not metric.shift:
            return value
        return value._replace(text=bounded(value.text, row.lane.tv_kind(row.measured.temperature)))

    return Head(metric.title, metric.help + direction, metric.group), cell


def _scored(text: str, help: str, cell: Callable[[Score], TableCell]) -> Column:
    """Return a column for a value of a metric."""
    return Head(text, help), lambda row: cell(row.score) if row.score else TableCell(MISSING)


def _share(name: str, text: str, help: str) -> Column:
    """Return a column for a share of a score, with its interval."""
    return _scored(text, help, lambda score: spread(getattr(score, name), percent))


def _mean(interval: Interval, score: Score) -> TableCell:
    """Write a score: as a percentage if binary, else as 0 to 1."""
    return spread(interval, percent if score.binary else number)


RULE: Column = Head("Rule"), lambda row: TableCell(row.lane.name)
DRAFTER: Column = Head("Drafter"), lambda row: TableCell(row.lane.drafts or MISSING)
TEMPERATURE: Column = (
    Head("T", "temperature"),
    lambda row: TableCell(f"{row.measured.temperature:g}"),
)
AMOUNT: Column = Head("n", "prompts × seeds"), lambda row: cells.amount(row.measured)
SETTING = (
    RULE,
    DRAFTER,
    group_column(Head("Group", "suite, or suite/category")),
    TEMPERATURE,
    AMOUNT,
)
COLUMNS = {name: _column(name, metric) for name, metric in METRICS.items()}
SPEED, LIKENESS = (
    tuple(
        COLUMNS[name]
        for name, metric in METRICS.items()
        if metric.likeness is likeness and not metric.meter
    )
    for likeness in (False, True)
)
METRIC = _scored("Metric", "", lambda score: TableCell(score.metric))
SCORE = _scored("Score", "", lambda score: _mean(score.value, score))
BASELINE_SCORE = _scored(
    "Strict", "strict with the same drafts", lambda score: _mean(score.baseline, score)
)
RECOVERY = _share("recovery", "Recovery", "mean score over strict's with the same drafts")
BOOTSTRAP = _share(
    "recovery_bootstrap", "Bootstrap", "recovery with the paired bootstrap's interval"
)
PLACEBO = _scored(
    "Random",
    "mean score of random relaxation of as many tokens, over the rule's",
    lambda score: cells.placebo_cell(score.placebo),
)
RANKED = _scored(
    "Random of its ranks",
    "the same among the tokens of the ranks that the rule admits",
    lambda score: cells.placebo_cell(score.ranked),
)
TEMPLATES = _share(
    "recovery_template",
    "By template",
    "recovery with an interval over templates, whose prompts hang together",
)
OVER_NONE = _share("recovery_none", "Over none", "mean score over that of decoding without drafts")
DIFFERENCE = _scored(
    "Difference",
    "score − strict's",
    lambda score: spread(score.difference, cells.points if score.binary else signed),
)
LOST = _scored(
    "Lost / gained", "answers right under strict only, and under the rule only", cells.lost_cell
)
TEST_HELP = "exact, two-sided; under it by sign flips per prompt, and after Holm's correction for all comparisons"
TEST = _scored("McNemar p", TEST_HELP, cells.test_cell)
VERDICT = _scored("Verdict", "", lambda score: cells.verdict_cell(score.verdict))
SCORES = (
    METRIC,
    SCORE,
    BASELINE_SCORE,
    RECOVERY,
    BOOTSTRAP,
    TEMPLATES,
    OVER_NONE,
    PLACEBO,
    RANKED,
    DIFFERENCE,
    LOST,
    TEST,
    VERDICT,
)
NOTHING = Paragraph("There are no measurements yet.", "note")


def _section(
    name: str, title: str, lead: str, label: str, columns: Sequence[Column], rows: Sequence[LaneRow]
) -> Section:
    block = make_table(label, (*SETTING, *columns), rows) if rows else NOTHING
    return Section(name, title, (block,), lead)


def _rows(report: Report) -> list[LaneRow]:
    return [LaneRow(measured, report.plan.lanes[measured.lane]) for measured in report.measured]


def speed_section(report: Report) -> Section:
    lead = "The ratio of means is the speed-up of the whole workload, the mean of ratios the average speed-up of a single answer."
    return _section(
        "speed", "Speed", lead, "Speed by group, temperature and lane", SPEED, _rows(report)
    )


def likeness_section(report: Report) -> Section:
    lead = "Similarity of the texts to strict's on the same prompt and seed, and their likelihood under the target."
    label = "Likeness by group, temperature and lane"
    return _section("likeness", "Against strict’s texts", lead, label, LIKENESS, _rows(report))


def scores_section(report: Report) -> Section:
    """Tabulate every metric of every group, categories too."""
    rows = [
        row._replace(score=score) for row in _rows(report) for score in row.measured.scores.values()
    ]
    label, lead = (
        "Scores by group, temperature, lane and metric",
        "Every metric, categories of a suite included.",
    )
    return _section("scores", "All scores", lead, label, SCORES, rows)


def position_section(report: Report) -> Section:
    """Acceptance by draft position."""
    rows = [row for row in _rows(report) if row.measured.acceptance_by_position]
    deepest = max((len(row.measured.acceptance_by_position) for row in rows), default=0)
    lead = "Share of the steps with a drafted token at a draft position in which it was kept."
    columns = [_position(depth) for depth in range(deepest)]
    return _section(
        "positions", "Acceptance by position", lead, "Acceptance by draft position", columns, rows
    )


def _position(index: int) -> Column:
    def cell(row: LaneRow) -> TableCell:
        return TableCell(next(map(percent, row.measured.acceptance_by_position[index:]), MISSING))

    return Head(str(index + 1), f"draft position {index + 1}"), cell


def vote_section(report: Report) -> Section | None:
    """Votes of people and of a language model; None where there are none."""
    kinds = (
        ("People, blind, on the same models", report.votes),
        ("A language model, both orders", report.judged),
    )
    tables = tuple(_votes(label, rows) for label, rows in kinds if rows)
    lead = "Votes between a rule and strict; the share excludes ties, with Wilson's 95 % interval."
    return Section("votes", "Votes", tables, lead) if tables else None


def _votes(label: str, rows: Sequence[VoteRow]) -> ReportTable:
    heads = tuple(map(Head, ("Rule", "For the rule", "For strict", "Neither", "Share")))
    votes = [(row, (row.wins, row.losses, row.ties)) for row in rows]
    written = [
        (TableCell(row.rule), *(TableCell(count(n)) for n in each), spread(row.share, percent))
        for row, each in votes
    ]
    return ReportTable(label, heads, tuple(written))


OVERVIEW_LEAD = (
    "Speed-up: ratio of means, all new tokens over all seconds, against {}. "
    "τ: all new tokens over all steps. Recovery: mean score of the suite's first metric over "
    "strict's with the same drafts; at the stated margin ✓ supported, ✗ not supported, ? too few "
    "prompts. What is not scored has relaxed tokens, equal texts and TV instead. 95 % "
    "intervals in brackets."
)
NAMED = 4  # lanes named in the note
SCORED: tuple[Column, ...] = (
    COLUMNS["tau"],
    (Head("Recovery"), lambda row: cells.recovery_cell(row.score)),
)
UNSCORED = tuple(COLUMNS[name] for name, metric in METRICS.items() if metric.panel)


def overview_section(report: Report) -> Section:
    """Return the table of the paper: one row per rule, columns by suite with speed-up, τ and
    recovery; one table per temperature."""
    temperatures = dict.fromkeys(row.temperature for row in report.measured)
    blocks: list[Block] = [_overview(report, temperature) for temperature in temperatures]
    over = "strict with the same drafts" if report.plan.none is None else "decoding without drafts"
    lead = OVERVIEW_LEAD.format(over)
    return Section("table", "Speed-up, τ and recovery", tuple(blocks) or (NOTHING,), lead)


def _overview(report: Report, temperature: float) -> ReportTable:
    heads: list[Head] = [RULE[0], DRAFTER[0]]
    by_lane: dict[int, list[TableCell]] = {}
    notes: list[str] = []
    lanes, here = (
        report.plan.lanes,
        [row for row in report.measured if row.temperature == temperature],
    )
    speed_up: Column = (
        Head("Speed-up"),
        lambda row: spread(row.measured.speedup_over(report.plan), ratio),
    )
    groups = [[row for row in here if row.group == group] for group in report.suite_groups]
    for row in (row for rows in groups for row in rows):
        by_lane[row.lane] = [column[1](LaneRow(row, lanes[row.lane])) for column in (RULE, DRAFTER)]
    for rows in filter(None, groups):
        most = max((row.prompts, row.seeds) for row in rows)
        columns = speed_up, *(SCORED if any(row.scores for row in rows) else UNSCORED)
        over = f"{rows[0].group}, {plural(most[0], 'prompt')} × {plural(most[1], 'seed')}"
        heads += [Head(head.text, head.help, over) for head, _ in columns]
        row_of = {row.lane: row for row in rows}
        for lane, written in by_lane.items():
            one = row_of.get(lane)
            written += [
                write(LaneRow(one, lanes[lane], one.main_score)) if one else TableCell(MISSING)
                for _, write in columns
            ]
        notes += [
            _less(lanes[row.lane], row)
            for row in rows
            if row.failed or (row.prompts, row.seeds) != most
        ]
    more = f"; and {count(len(notes) - NAMED)} more" if len(notes) > NAMED else ""
    note = f"Measured on less: {'; '.join(notes[:NAMED])}{more}." if notes else ""
    return ReportTable(
        f"T = {temperature:g}", tuple(heads), tuple(map(tuple, by_lane.values())), note
    )


def _less(lane: Lane, row: Measured) -> str:
    """Write the note for a lane that was measured on fewer runs than its column head states."""
    failed = f", {count(row.failed)} failed" if row.failed else ""
    name = f"{lane.name} {lane.drafts}".strip()
    return f"{name} on {row.group}: {cells.amount(row).text}, {plural(row.runs, 'run')}{failed}"
