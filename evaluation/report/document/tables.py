"""The tables of a report by lane: that of the paper, speed, all scores, likeness to strict, acceptance
by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from display.blocks import Block, Head, Paragraph, ReportTable, Section, TableCell
from display.format import (
    MISSING,
    bounded,
    first_few,
    number,
    percent,
    plural,
    points,
    ratio,
    signed,
)
from display.names import drafts_label
from evaluation.plan.lane import Lane
from evaluation.report.document import cells
from evaluation.report.document.cells import spread
from evaluation.report.measured import METRICS, Measured, Score
from evaluation.report.metrics import ReportMetric
from evaluation.report.values import Report


class LaneRow(NamedTuple):
    """A measured lane, with one of its metrics in tables of metrics."""

    measured: Measured
    lane: Lane
    score: Score | None = None


Column = tuple[Head, Callable[[LaneRow], TableCell]]


def _metric(name: str, metric: ReportMetric) -> Column:
    """Return the column of a metric with its interval; a TV is marked where it is an upper
    bound."""

    def cell(row: LaneRow) -> TableCell:
        value = spread(getattr(row.measured, name), metric.write)
        if not metric.shift:
            return value
        return value._replace(text=bounded(value.text, row.lane.tv_kind(row.measured.temperature)))

    return metric.head, cell


def _scored(text: str, help: str, cell: Callable[[Score], TableCell]) -> Column:
    """Return a column for a value of a metric."""
    return Head(text, help), lambda row: cell(row.score) if row.score else TableCell(MISSING)


def _share(name: str, text: str, help: str) -> Column:
    """Return a column for a share of a score, with its interval."""
    return _scored(text, help, lambda score: spread(getattr(score, name), percent))


def _mean(name: str, text: str, help: str = "") -> Column:
    """Return a column for a score: as a percentage if binary, else as 0 to 1."""
    return _scored(
        text,
        help,
        lambda score: spread(getattr(score, name), percent if score.binary else number),
    )


COLUMNS: Mapping[str, Column] = {
    "rule": (Head("Rule"), lambda row: TableCell(row.lane.title)),
    "drafter": (Head("Drafter"), lambda row: TableCell(drafts_label(row.lane.drafts) or MISSING)),
    "group": (
        Head("Group", "suite, or suite/category"),
        lambda row: TableCell(row.measured.group),
    ),
    "temperature": (
        Head("T", "temperature"),
        lambda row: TableCell(f"{row.measured.temperature:g}"),
    ),
    "amount": (Head("n", "prompts × seeds"), lambda row: cells.amount(row.measured)),
    **{name: _metric(name, metric) for name, metric in METRICS.items()},
    "metric": _scored("Metric", "", lambda score: TableCell(score.metric)),
    "score": _mean("value", "Score"),
    "baseline": _mean("baseline", "Strict", "strict with the same drafts"),
    "recovery": _share("recovery", "Recovery", "mean score over strict's with the same drafts"),
    "templates": _share(
        "recovery_template",
        "By template",
        "recovery with an interval over templates, whose prompts hang together",
    ),
    "over_none": _share(
        "recovery_none", "Over none", "mean score over that of decoding without drafts"
    ),
    "difference": _scored(
        "Difference",
        "score − strict's",
        lambda score: spread(score.difference, points if score.binary else signed),
    ),
    "lost": _scored(
        "Lost / gained",
        "answers right under strict only, and under the rule only",
        cells.lost_cell,
    ),
    "test": _scored(
        "McNemar p",
        "exact, two-sided; under it by sign flips per prompt, and after Holm's correction for all "
        "comparisons",
        cells.test_cell,
    ),
    "verdict": _scored(
        "Verdict",
        "",
        lambda score: cells.marked(TableCell(score.verdict or MISSING), score.verdict),
    ),
    "marked": _scored(
        "Recovery",
        "",
        lambda score: cells.marked(spread(score.recovery, percent), score.verdict),
    ),
}
SETTING = ("rule", "drafter", "group", "temperature", "amount")
SPEED, COSTS, LIKENESS = (
    tuple(name for name, metric in METRICS.items() if metric.table == table)
    for table in ("speed", "costs", "likeness")
)
SCORES = (
    *("metric", "score", "baseline", "recovery", "templates", "over_none"),
    *("difference", "lost", "test", "verdict"),
)
NOTHING = Paragraph("There are no measurements yet.", "note")


def make_table(label: str, columns: Iterable[str | Column], rows: Sequence[LaneRow]) -> ReportTable:
    found = (COLUMNS[each] if isinstance(each, str) else each for each in columns)
    return cells.known_columns(label, [(head, list(map(write, rows))) for head, write in found])


def lane_rows(report: Report) -> list[LaneRow]:
    """Return every measured lane with its main score."""
    return [LaneRow(row, report.plan.lanes[row.lane], row.main_score) for row in report.measured]


def lane_sections(report: Report) -> tuple[Section, ...]:
    """Return the sections of every group: speed, scores, likeness and positions."""
    rows = lane_rows(report)

    def section(
        name: str,
        title: str,
        lead: str,
        label: str,
        columns: Iterable[str | Column],
        some: Sequence[LaneRow] = rows,
    ) -> Section:
        table = make_table(label, (*SETTING, *columns), some) if some else NOTHING
        return Section(name, title, (table,), lead)

    scored = [row._replace(score=each) for row in rows for each in row.measured.scores.values()]
    placed = [row for row in rows if row.measured.acceptance_by_position]
    deepest = max((len(row.measured.acceptance_by_position) for row in placed), default=0)
    return (
        section(
            "speed",
            "Speed",
            "The ratio of means is the speed-up of the whole workload, the mean of ratios the average speed-up of a single answer.",
            "Speed by group, temperature and lane",
            SPEED,
        ),
        section(
            "scores",
            "All scores",
            "Every metric, categories of a suite included.",
            "Scores by group, temperature, lane and metric",
            SCORES,
            scored,
        ),
        section(
            "likeness",
            "Against strict’s texts",
            "Similarity of the texts to strict's on the same prompt and seed, and their likelihood under the target.",
            "Likeness by group, temperature and lane",
            LIKENESS,
        ),
        section(
            "positions",
            "Acceptance by position",
            "Share of the steps with a drafted token at a draft position in which it was kept.",
            "Acceptance by draft position",
            map(_position, range(deepest)),
            placed,
        ),
    )


def _position(index: int) -> Column:
    def cell(row: LaneRow) -> TableCell:
        return TableCell(next(map(percent, row.measured.acceptance_by_position[index:]), MISSING))

    return Head(str(index + 1), f"draft position {index + 1}"), cell


OVERVIEW_LEAD = (
    "Speed-up: ratio of means, all new tokens over all seconds, against {}. "
    "τ: all new tokens over all steps. Recovery: mean score of the suite's first metric over "
    "strict's with the same drafts; at the stated margin ✓ supported, ✗ not supported, ? too few "
    "prompts. What is not scored has relaxed tokens, equal texts and TV instead. 95 % "
    "intervals in brackets."
)
UNSCORED = tuple(name for name, metric in METRICS.items() if metric.panel)


def overview_section(report: Report) -> Section:
    """Return the table of the paper: one row per rule, columns by suite with speed-up, τ and
    recovery; one table per temperature."""
    temperatures = dict.fromkeys(row.temperature for row in report.measured)
    blocks: list[Block] = [_overview(report, temperature) for temperature in temperatures]
    over = "strict with the same drafts" if report.plan.none is None else "decoding without drafts"
    lead = OVERVIEW_LEAD.format(over)
    return Section("table", "Speed-up, τ and recovery", tuple(blocks) or (NOTHING,), lead)


def _overview(report: Report, temperature: float) -> ReportTable:
    speed_up: Column = (
        Head("Speed-up"),
        lambda row: spread(row.measured.speedup_over(report.plan), ratio),
    )
    here = [row for row in lane_rows(report) if row.measured.temperature == temperature]
    groups = [
        some
        for group in report.suite_groups
        if (some := {row.measured.lane: row for row in here if row.measured.group == group})
    ]
    names = COLUMNS["rule"], COLUMNS["drafter"]
    heads, notes = [head for head, _ in names], list[str]()
    lines = {
        lane: [write(row) for _, write in names] for rows in groups for lane, row in rows.items()
    }
    for rows in groups:
        every = [row.measured for row in rows.values()]
        most = max((row.prompts, row.seeds) for row in every)
        others = ("tau", "marked") if any(row.scores for row in every) else UNSCORED
        columns = speed_up, *(COLUMNS[name] for name in others)
        over = f"{every[0].group}, {plural(most[0], 'prompt')} × {plural(most[1], 'seed')}"
        heads += [Head(head.text, head.help, over) for head, _ in columns]
        for lane, line in lines.items():
            one = rows.get(lane)
            line += [write(one) if one else TableCell(MISSING) for _, write in columns]
        notes += [
            f"{row.setting(report.plan)}: {', '.join(filter(None, cells.amount(row)[:2]))}"
            for row in every
            if row.failed or (row.prompts, row.seeds) != most
        ]
    note = f"Measured on less: {first_few(notes)}." if notes else ""
    return ReportTable(
        f"T = {temperature:g}", tuple(heads), tuple(map(tuple, lines.values())), note
    )
