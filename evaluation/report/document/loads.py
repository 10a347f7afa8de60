"""Throughput by load: tables, the best K of every rule, and tokens a second over the runs of a
batch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

from display.blocks import (
    Head,
    Paragraph,
    Picture,
    ReportTable,
    Section,
    TableCell,
)
from display.format import MISSING, count, ratio
from display.names import drafts_label
from evaluation.report.document.cells import beside, between
from evaluation.report.document.lines import ALONE, LinePoint, lines_plot
from evaluation.report.document.rows import row_table
from evaluation.report.rows import LoadRow
from evaluation.report.values import Report

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
Family = tuple[str, str]


def load_section(report: Report) -> Section | None:
    """Throughput and latency of a study on servers, throughput of one in batches; None for
    others."""
    if not report.loads:
        return None
    if report.plan.served:
        title = "Throughput and latency"
        table = row_table(report.plan, f"{title} by requests in flight", report.loads)
        return Section("load", title, (table,), LOAD_LEAD)
    table = row_table(report.plan, "Tokens a second of a batch", report.loads)
    best = best_blocks(report.throughputs)
    return Section("load", "Throughput of batches", (*best, table), BATCH_LEAD)


def best_blocks(rows: Sequence[LoadRow]) -> Iterator[ReportTable | Paragraph]:
    """Yield the best K of every rule at each load, and the load from which on none is faster."""
    for temperature, here in _by_temperature(rows):
        loads, table = sorted({row.load for row in here}), list[tuple[TableCell, ...]]()
        for (rule, drafts), lanes in _families(here).items():
            best = [
                max(
                    (row for row in lanes if row.load == load),
                    key=lambda row: row.tokens_per_s.value,
                    default=None,
                )
                for load in loads
            ]
            cells = (TableCell(MISSING) if row is None else _best_cell(row) for row in best)
            table.append((TableCell(rule), TableCell(drafts), *cells))
            pays = f"{rule}, {drafts}, T = {temperature:g}: {_pays(loads, best)}."
            yield Paragraph(f"{pays}{_schedule(loads, best)}", "note")
        heads = (
            Head("Rule"),
            Head("Drafter"),
            *(Head(count(each), "", "Batch of") for each in loads),
        )
        label = (
            f"The draft with most tokens a second, and its rate over none's, T = {temperature:g}"
        )
        yield ReportTable(label, heads, tuple(table))


def _pays(loads: Sequence[int], best: Sequence[LoadRow | None]) -> str:
    """Say from which load on speculation is not faster than none."""
    faster = [at for at, row in enumerate(best) if row and row.over_none.low > 1]
    last = faster[-1] if faster else -1
    if not any(row and math.isfinite(row.over_none.value) for row in best):
        return "no lane decodes without drafts"
    if last == len(loads) - 1:
        return f"faster than none in a batch of {count(loads[-1])}, the largest"
    return f"not faster than none {f'from {count(loads[last + 1])} runs on' if faster else 'at any load'}"


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


def load_pictures(rows: Sequence[LoadRow]) -> Iterator[Picture]:
    """Draw one for every temperature: a panel for each rule, with a line for each K and for
    none."""
    for order, (temperature, here) in enumerate(_by_temperature(rows), start=1):
        none = [row for row in here if not row.lane.drafts]
        points = [
            LinePoint(
                f"Tokens/s: {', '.join(family)}",
                drafts_label(row.lane.drafts) or ALONE,
                math.log2(row.load),
                count(row.load),
                row.tokens_per_s,
                f"{beside(row.tokens_per_s)} tokens/s",
            )
            for family, lanes in _families(here).items()
            for row in (*none, *lanes)
        ]
        if points:
            title = f"Tokens a second over the runs of a batch, T = {temperature:g}"
            plot = lines_plot(title, points, "Runs in the batch")
            yield Picture(f"chart-load-{order}", "Tokens a second by load", plot)


def _by_temperature(rows: Sequence[LoadRow]) -> Iterator[tuple[float, list[LoadRow]]]:
    """Yield the rows without placebos."""
    for temperature in dict.fromkeys(row.temperature for row in rows):
        here = [row for row in rows if row.temperature == temperature]
        yield temperature, [row for row in here if not row.lane.is_control]


def _families(rows: Sequence[LoadRow]) -> dict[Family, list[LoadRow]]:
    """Group rows by rule and drafter, whatever its K; without none."""
    families = dict[Family, list[LoadRow]]()
    for row in rows:
        if row.lane.drafts:
            families.setdefault((row.lane.title, row.lane.family), []).append(row)
    return families
