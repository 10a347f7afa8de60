"""The table of the paper: speed-up, τ and recovery of every rule by suite."""

from __future__ import annotations

from display.blocks import Block, Head, ReportTable, Section, TableCell
from display.format import MISSING, first_few, plural, ratio
from evaluation.report.document.cells import amount, spread
from evaluation.report.document.tables import COLUMNS, NOTHING, Column, lane_rows
from evaluation.report.measured import METRICS
from evaluation.report.values import Report

LEAD = (
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
    lead = LEAD.format(over)
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
            f"{row.setting(report.plan)}: {', '.join(filter(None, amount(row)[:2]))}"
            for row in every
            if row.failed or (row.prompts, row.seeds) != most
        ]
    note = f"Measured on less: {first_few(notes)}." if notes else ""
    return ReportTable(
        f"T = {temperature:g}", tuple(heads), tuple(map(tuple, lines.values())), note
    )
