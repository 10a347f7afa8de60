"""Sections of what was measured over one quantity, each with a picture and tables: properties of
relaxed tokens, the length of the prompt, the load."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from display.blocks import Block, Head, Paragraph, Picture, ReportTable, Section, TableCell
from display.format import MISSING, count, percent, ratio
from display.names import drafts_label
from evaluation.report.document.cells import beside, between
from evaluation.report.document.lines import ALONE, SHARES, LinePoint, ValueAxis, lines_plot
from evaluation.report.document.rows import row_table
from evaluation.report.rows import PROPERTIES, LoadRow
from evaluation.report.values import Report

FOLLOWED = "What follows a relaxed token"
FOLLOWED_LEAD = (
    "For each token, strict continues from just before it, with the target's token instead, and "
    "from just after it, with the same noise. Changed: the answers of the two texts differ, by "
    "score or by what is extracted from them. Meets: both texts have the same end; after: the "
    "tokens until then, median and quartiles. ln p: of the text after the token, per token, minus "
    "that of the other. Shares and means have 95 % intervals by prompt."
)
LENGTH_LEAD = (
    "Each prompt stands after stories that fill it to so many tokens; the same prompts at every "
    "length, over the tasks that all lanes completed. Tokens/s: all new tokens over all seconds, "
    "which include reading the prompt. Intervals by prompt. matrix.csv has these numbers by "
    "category too."
)
LENGTHS = {"tau": "τ", "tokens_per_s": "Tokens/s"}  # what is drawn
LOAD_LEAD = (
    "With so many requests in flight, the lanes in random order. Rates are concurrency × answers "
    "(or tokens) / the sum of their latencies: what the server delivers if all requests in flight "
    "are of this lane and its time per step stays the same. Two servers divide the requests, so "
    "their rates are unknown. Times: median and 95th percentile, without failed tries."
)
BATCH_LEAD = (
    "Tokens a second of a batch of N runs, of all lanes with the same drafter: the time of a step "
    "is divided equally among the runs that are in it. It is throughput, compared only with none "
    "in a batch of the same size; the times of single runs in it are unknown."
)
Family = tuple[str, str, str]  # rule, drafter whatever its K, temperature


def followed_section(report: Report) -> Section | None:
    """Return what followed relaxed tokens; None for a study in which that was not asked. The picture
    has the share of changed answers by property, or of texts that meet where no answer is known."""
    if not report.followed:
        return None
    every = [row for row in report.followed if not row.by]
    parts = [row for row in report.followed if row.by]
    blocks: list[Block] = [row_table(report.plan, FOLLOWED, every, ("by", "part"))]
    blocks += [row_table(report.plan, "By token", parts)] if parts else []
    known = any(not math.isnan(row.changed.value) for row in parts)
    title = "Changed answers" if known else "Texts that meet"
    points = []
    for row in parts:
        value, series = row.changed if known else row.meets, row.name(report.plan)
        if not math.isnan(value.value) and not math.isnan(row.x):
            series, text = f"{series}, T = {row.temperature:g}", beside(value, percent)
            points.append(LinePoint(PROPERTIES[row.by], series, row.x, row.part, value, text))
    if points:
        text = f"{title} by properties of the relaxed token; bars are 95 % intervals by prompt."
        plot = lines_plot(text, points, axes=ValueAxis(SHARES))
        blocks.insert(0, Picture("chart-followed", title, plot))
    return Section("followed", FOLLOWED, tuple(blocks), FOLLOWED_LEAD)


def length_section(report: Report) -> Section | None:
    """Return τ and speed by length; None for a study whose prompts have the length that they have."""
    rows = [row for row in report.lengths if not row.group]
    if not rows or not any(suite.tokens for suite in report.plan.suites):
        return None
    plan, title = report.plan, "τ and speed by prompt length"
    blocks: list[Block] = [row_table(plan, title, rows)]
    points = [
        LinePoint(
            f"{caption}, T = {row.temperature:g}",
            plan.title(lane) if lane.drafts else ALONE,
            math.log2(row.length),
            f"{count(row.length)} tokens",
            value,
            beside(value),
        )
        for name, caption in LENGTHS.items()
        for row, lane in ((row, plan.lanes[row.lane]) for row in rows)
        if not lane.is_control and math.isfinite((value := getattr(row, name)).value)
    ]
    if points:
        axes = {point.panel: ValueAxis({}) for point in points}
        over = "Length of the prompt"
        plot = lines_plot(f"τ and tokens a second over the {over.lower()}", points, over, axes)
        blocks.insert(0, Picture("chart-length", title, plot))
    return Section("lengths", "Length of the prompt", tuple(blocks), LENGTH_LEAD)


def load_section(report: Report) -> Section | None:
    """Return throughput and latency of a study on servers, throughput of one in batches; None for
    others."""
    if not report.loads:
        return None
    if report.plan.served:
        title = "Throughput and latency"
        table = row_table(report.plan, f"{title} by requests in flight", report.loads)
        return Section("load", title, (table,), LOAD_LEAD)
    table = row_table(report.plan, "Tokens a second of a batch", report.loads)
    best = [*load_picture(report.loads), *best_blocks(report.loads)] if report.plan.loads else []
    return Section("load", "Throughput of batches", (*best, table), BATCH_LEAD)


def best_blocks(rows: Sequence[LoadRow]) -> Iterator[ReportTable | Paragraph]:
    """Yield the load from which on none is faster, for every rule, and the table of the best K at
    each load."""
    loads, table = sorted({row.load for row in rows}), list[tuple[TableCell, ...]]()
    for family, lanes in _families(rows).items():
        every = [[row for row in lanes if row.load == load] for load in loads]
        best = [max(some, key=lambda row: row.tokens_per_s.value, default=None) for some in every]
        cells = (TableCell(MISSING) if row is None else _best_cell(row) for row in best)
        table.append((*map(TableCell, family), *cells))
        yield Paragraph(
            f"{', '.join(family)}: {_pays(loads, best)}.{_schedule(loads, best)}", "note"
        )
    heads = map(Head, ("Rule", "Drafter", "Temperature"))
    by_load = (Head(count(each), "", "Batch of") for each in loads)
    label = "The draft with most tokens a second, and its rate over none's"
    yield ReportTable(label, (*heads, *by_load), tuple(table))


def _families(rows: Sequence[LoadRow]) -> dict[Family, list[LoadRow]]:
    """Group the rows of drafts, without placebos."""
    families = defaultdict[Family, list[LoadRow]](list)
    for row in rows:
        if row.lane.drafts and not row.lane.is_control:
            family = row.lane.title, row.lane.family, f"T = {row.temperature:g}"
            families[family].append(row)
    return families


def _pays(loads: Sequence[int], best: Sequence[LoadRow | None]) -> str:
    """Say from which load on speculation is not faster than none."""
    if not any(row and math.isfinite(row.over_none.value) for row in best):
        return "no lane decodes without drafts"
    pairs = zip(loads, best, strict=True)
    last = max((load for load, row in pairs if row and row.over_none.low > 1), default=0)
    if last == loads[-1]:
        return f"faster than none in a batch of {count(last)}, the largest"
    start = next(load for load in loads if load > last)
    return f"not faster than none {f'from {count(start)} runs on' if last else 'at any load'}"


def _schedule(loads: Sequence[int], best: Sequence[LoadRow | None]) -> str:
    """Return the best K of each load as vLLM's setting, whose ranges of batch sizes are inclusive: 0
    where drafts are not faster than none. Nothing where a load lacks one, and for trees."""
    rows = [row for row in best if row and not row.lane.drafter.tree]
    if len(rows) < len(loads) or not any(row.over_none.low > 1 for row in rows):
        return ""
    values = [row.lane.drafter.k if row.over_none.low > 1 else 0 for row in rows]
    starts = [at for at, value in enumerate(values) if not at or value != values[at - 1]]
    ends = [*(loads[at] - 1 for at in starts[1:]), loads[-1]]
    sizes = {f"{loads[at]}-{end}": values[at] for at, end in zip(starts, ends, strict=True)}
    return f" For vLLM: {json.dumps({'num_speculative_tokens_per_batch_size': sizes})}"


def _best_cell(row: LoadRow) -> TableCell:
    over_none, drafts = row.over_none, row.lane.drafts.split()[1].replace("=", " = ")
    mark = "good" if over_none.low > 1 else "bad" if over_none.high < 1 else "open"
    return TableCell(f"{drafts}: {ratio(over_none.value)}", between(over_none, ratio), mark)


def load_picture(rows: Sequence[LoadRow]) -> Iterator[Picture]:
    """Draw a panel for each rule at each temperature, with a line for each K and for none."""
    points = [
        LinePoint(
            f"Tokens/s: {', '.join(family)}",
            drafts_label(row.lane.drafts) or ALONE,
            math.log2(row.load),
            count(row.load),
            row.tokens_per_s,
            f"{beside(row.tokens_per_s)} tokens/s",
        )
        for family, lanes in _families(rows).items()
        for row in rows
        if row in lanes or (not row.lane.drafts and row.temperature == lanes[0].temperature)
    ]
    if points:
        plot = lines_plot("Tokens a second over the runs of a batch", points, "Runs in the batch")
        yield Picture("chart-load", "Tokens a second by load", plot)
