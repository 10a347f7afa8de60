"""The table of a sweep as plain values: one row a setting, one column a quantity; and the pairs of one setting. No gradio."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation.sweeps.points import Cell, Interval, Plan, Point, Result
from ui.kit.format import MINUS, MISSING, count, displayable, number, ratio, share, shorten
from ui.kit.labels import parameter_title, rule_title

MOST_PAIRS = 200  # of one setting on the page; all are in the CSV
INTERVAL = "small: 95 % Wilson interval"


@dataclass(frozen=True, slots=True)
class Column:
    """``small`` stands beside the value: an interval."""

    head: str
    help: str
    write: Callable[[Point], str]
    small: Callable[[Point], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One setting. ``cells``: (text, small text); ``best``: nothing beats it in the chosen trade-off."""

    name: str
    cells: tuple[tuple[str, str], ...]
    best: bool


@dataclass(frozen=True, slots=True)
class SweepTable:
    heads: tuple[tuple[str, str], ...]  # text, help
    rows: tuple[TableRow, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison of a setting."""

    comparison: str
    prompt: str
    seed: str
    speedup: str
    differs: str
    strict: str  # right, wrong or a dash
    rule: str


def _signed(value: float) -> str:
    """A difference of two shares, in percentage points."""
    text = f"{number(abs(100 * value))} pp"
    return MISSING if math.isnan(value) else f"{MINUS if value < 0 else '+' if value else ''}{text}"


def _between(interval: Interval, write: Callable[[float], str]) -> str:
    low, high = write(interval.low), write(interval.high)
    return "" if MISSING in (low, high) else f"{low.removesuffix(' %').removesuffix('×')}–{high}"


_MEASURED: tuple[Column, ...] = (
    Column("Pairs", "comparisons of the rule with strict, run back to back", lambda p: count(p.n)),
    Column("Speed-up", "tokens/s over strict's: median of the pairs; small: quartiles",
           lambda p: ratio(p.speedup.value), lambda p: _between(p.speedup, ratio) if p.n > 1 else ""),
    Column("Tokens/s", "median; small: strict's",
           lambda p: number(p.tokens_per_s), lambda p: number(p.strict_tokens_per_s) if p.n else ""),
    Column("τ", "all new tokens / all steps; small: strict's",
           lambda p: number(p.tau), lambda p: number(p.strict_tau) if p.n else ""),
    Column("τ ratio", "τ over strict's", lambda p: ratio(p.tau_ratio)),
    Column("Texts differ", f"share of pairs whose texts differ in any token; {INTERVAL}",
           lambda p: share(p.differ.value), lambda p: _between(p.differ, share)),
    Column("First difference", "output position, from 0: median over the pairs that differ", lambda p: number(p.divergence)),
    Column("Relaxed", "tokens kept only because they were forgiven / new tokens", lambda p: share(p.relaxed_share)),
    Column("TV a token", "mean total variation between the law of the emitted token and p", lambda p: number(p.tv)),
    Column("Length", "new tokens, the rule's over strict's", lambda p: ratio(p.length_ratio)),
)  # fmt: skip
_SCORED: tuple[Column, ...] = (
    Column("Right", f"share of right answers; {INTERVAL}", lambda p: share(p.score.value), lambda p: _between(p.score, share)),
    Column("Right, strict", f"the same of strict; {INTERVAL}",
           lambda p: share(p.strict_score.value), lambda p: _between(p.strict_score, share)),
    Column("Score loss", "right under strict − right under the rule, in percentage points", lambda p: _signed(p.score_loss)),
)  # fmt: skip


def value_label(plan: Plan, cell: Cell) -> str:
    """``θ = 0.9``, or the rule's name where it has no parameter."""
    return rule_title(plan.rule) if cell.value is None else f"{parameter_title(plan.parameter)} = {cell.value:g}"


def group_label(plan: Plan, cell: Cell) -> str:
    """``T = 1, K = 5``; for a tree how many tokens it drafts."""
    tree = plan.drafter.tree
    draft = f"tree of {tree.tokens}" if tree else f"K = {cell.k}"
    return f"T = {cell.temperature:g}, {draft}"


def sweep_table(plan: Plan, points: Sequence[Point], best: Sequence[int]) -> SweepTable:
    """``best``: indices of the points that no other beats."""
    columns = _MEASURED + (_SCORED if plan.scored else ())
    value = (parameter_title(plan.parameter), "the value of the rule's parameter") if plan.values else ("Rule", "")
    draft = ("Draft", "the draft tree") if plan.drafter.tree else ("K", "drafted tokens a step")
    heads = (value, ("T", "temperature"), draft, *((column.head, column.help) for column in columns))
    rows = tuple(_row(plan, point, columns, index in best) for index, point in enumerate(points))
    return SweepTable(heads, rows)


def _row(plan: Plan, point: Point, columns: Sequence[Column], best: bool) -> TableRow:
    cell, tree = point.cell, plan.drafter.tree
    value = rule_title(plan.rule) if cell.value is None else f"{cell.value:g}"
    setting = ((value, ""), (f"{cell.temperature:g}", ""), (f"tree of {tree.tokens}" if tree else str(cell.k), ""))
    cells = tuple((column.write(point), column.small(point)) for column in columns)
    return TableRow(f"{value_label(plan, cell)}, {group_label(plan, cell)}", (*setting, *cells), best)


def pairs(plan: Plan, results: Sequence[Result], cell: Cell) -> tuple[Pair, ...]:
    """The comparisons of one setting, in the order of execution."""
    return tuple(_pair(plan, result) for result in results if result.cell == cell)


def _pair(plan: Plan, result: Result) -> Pair:
    where = "the same text" if result.divergence is None else f"at {count(result.divergence)}, {result.cause}"
    return Pair(
        comparison=result.comparison,
        prompt=shorten(plan.cases[result.case].prompt, 90),
        seed=str(plan.seed_of(result.repeat, result.case)),
        speedup=ratio(result.speedup),
        differs=displayable(where),
        strict=_verdict(result.strict_right),
        rule=_verdict(result.right),
    )


def _verdict(right: bool | None) -> str:
    return MISSING if right is None else "right" if right else "wrong"
