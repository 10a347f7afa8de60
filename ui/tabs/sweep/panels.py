"""The panels of a sweep: the table with one row a setting, and the pairs of one setting. Escaped
HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evaluation.format import MINUS, MISSING, bounded, count, number, plural, ratio, share
from evaluation.study.pairs import Sweep
from evaluation.study.plan import Plan
from evaluation.study.points import Cost, Interval, Point, optimal, points
from evaluation.study.sweep import case_of, cells, first_lane, is_scored
from ui.figures.tradeoff import against, setting_label
from ui.kit.labels import parameter_title, rule_title
from ui.kit.panel import render

MOST_PAIRS = 200  # of one setting on the page; all are in the CSV
TEMPLATE = "tabs/sweep/sweep.html.jinja"
INTERVAL = "small: 95 % Wilson interval"


class Column(NamedTuple):
    """``small`` stands beside the value: an interval."""

    head: str
    help: str
    write: Callable[[Point], str]
    small: Callable[[Point], str] = lambda _: ""


def _signed(value: float) -> str:
    """A difference of two shares, in percentage points."""
    text = f"{number(abs(100 * value))} pp"
    return MISSING if math.isnan(value) else f"{MINUS if value < 0 else '+' if value else ''}{text}"


def _between(interval: Interval, write: Callable[[float], str]) -> str:
    low, high = write(interval.low), write(interval.high)
    return "" if MISSING in (low, high) else f"{low.removesuffix(' %').removesuffix('×')}–{high}"


_MEASURED: tuple[Column, ...] = (
    Column(
        "Pairs",
        "runs of the rule, each beside strict on the same prompt and seed",
        lambda p: count(p.n),
    ),
    Column(
        "Speed-up",
        "tokens/s over strict's: geometric mean over the pairs; small: Student's 95 % interval",
        lambda p: ratio(p.speedup.value),
        lambda p: _between(p.speedup, ratio) if p.n > 1 else "",
    ),
    Column(
        "Tokens/s",
        "median; small: strict's",
        lambda p: number(p.tokens_per_s),
        lambda p: number(p.strict_tokens_per_s) if p.n else "",
    ),
    Column(
        "τ",
        "all new tokens / all steps; small: strict's",
        lambda p: number(p.tau),
        lambda p: number(p.strict_tau) if p.n else "",
    ),
    Column("τ ratio", "τ over strict's", lambda p: ratio(p.tau_ratio)),
    Column(
        "Texts differ",
        f"share of pairs whose texts differ in any token; {INTERVAL}",
        lambda p: share(p.differ.value),
        lambda p: _between(p.differ, share),
    ),
    Column(
        "First difference",
        "output position, from 0: median over the pairs that differ",
        lambda p: number(p.divergence),
    ),
    Column(
        "Relaxed",
        "tokens accepted only because the rule is relaxed / new tokens",
        lambda p: share(p.relaxed_share),
    ),
    Column(
        "TV a token",
        "mean total variation between the distribution of the emitted token and p",
        lambda p: bounded(number(p.tv), p.tv_kind),
    ),
    Column("Length", "new tokens, the rule's over strict's", lambda p: ratio(p.length_ratio)),
)
_SCORED: tuple[Column, ...] = (
    Column(
        "Right",
        f"share of right answers; {INTERVAL}",
        lambda p: share(p.score.value),
        lambda p: _between(p.score, share),
    ),
    Column(
        "Right, strict",
        f"the same of strict; {INTERVAL}",
        lambda p: share(p.strict_score.value),
        lambda p: _between(p.strict_score, share),
    ),
    Column(
        "Score loss",
        "right under strict − right under the rule, in percentage points",
        lambda p: _signed(p.score_loss),
    ),
)


def settings_html(sweep: Sweep | None, cost: Cost) -> str:
    """The table; a click on a row is the event ``select`` with ``row``, its number. Marked rows are
    best in speed and ``cost``."""
    if sweep is None:
        return render(TEMPLATE, part="settings", heads=())
    plan = sweep.plan
    found, tree = points(plan, sweep.pairs), first_lane(plan).drafter.tree
    columns = _MEASURED + (_SCORED if is_scored(plan) else ())
    value = (
        (parameter_title(plan.varied), "the value of the rule's parameter")
        if plan.varied
        else ("Rule", "")
    )
    draft = ("Draft", "the draft tree") if tree else ("K", "drafted tokens a step")
    heads = (value, ("T", "temperature"), draft, *(column[:2] for column in columns))
    best = optimal(found, cost)
    rows = [
        {
            "name": setting_label(plan, point.cell),
            "best": at in best,
            "cells": _cells(plan, point, columns),
        }
        for at, point in enumerate(found)
    ]
    return render(
        TEMPLATE, part="settings", sweep=sweep.id, heads=heads, rows=rows, against=against(cost)
    )


def _cells(plan: Plan, point: Point, columns: Sequence[Column]) -> list[tuple[str, str]]:
    """(text, small text) of each column."""
    cell, lane = point.cell, first_lane(plan)
    value = rule_title(lane.rule.name) if cell.value is None else f"{cell.value:g}"
    draft = f"tree of {lane.drafter.tree.tokens}" if lane.drafter.tree else str(cell.k)
    setting = [(value, ""), (f"{cell.temperature:g}", ""), (draft, "")]
    return setting + [(column.write(point), column.small(point)) for column in columns]


def pairs_html(sweep: Sweep | None, row: int) -> str:
    """The pairs of the setting in that row of the table; each opens in History. Nothing for a row
    that is not there."""
    if sweep is None or not 0 <= row < len(cells(sweep.plan)):
        return render(TEMPLATE, part="pairs", title="")
    plan, cell = sweep.plan, cells(sweep.plan)[row]
    found = [pair for pair in sweep.pairs if pair.cell == cell]
    note = "" if found else "No pair of this setting has ended yet."
    if len(found) > MOST_PAIRS:
        note = f"The first {count(MOST_PAIRS)} of {count(len(found))}; all are in sweep-comparisons.csv."
    title = f"{setting_label(plan, cell)}: {plural(len(found), 'pair')}"
    rows = [(pair, case_of(plan, pair.case).prompt, pair.seed(plan)) for pair in found[:MOST_PAIRS]]
    return render(TEMPLATE, part="pairs", title=title, note=note, scored=is_scored(plan), rows=rows)
