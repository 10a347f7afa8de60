"""The table of compared runs: the leftmost is the baseline, differences are signed, and equal rows say so."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluation.format import duration, number, share
from storage import RunRecord, RunStore
from tests.traces import make_trace, make_tree_trace
from tests.unit.ui.places import HOSTILE
from ui.kit.address import Address
from ui.tabs.history.runs import MEASURES, RATIOS, RunRow, RunTable, acted, run_table, signed, with_run

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def record(number_: int, **settings: object) -> RunRecord:
    trace = make_trace(new_tokens=12, **settings)  # type: ignore[arg-type]
    return RunRecord(
        f"{number_:032x}", f"{99:032x}", 0, NOW + timedelta(minutes=number_), trace.status, trace.stop_reason, trace.error, "",
        trace.config, trace.summary, trace.text,
    )  # fmt: skip


def row(table: RunTable, name: str) -> RunRow:
    return next(row for row in table.rows if row.name == name)


def test_every_row_has_a_cell_a_run_and_the_leftmost_has_no_difference() -> None:
    table = run_table([record(1), record(2, rule="mars", seed=3), record(3, rule="none")])
    assert {len(row.cells) for row in table.rows} == {len(table.columns)} == {3}
    assert not any(row.cells[0].delta or row.cells[0].ratio for row in table.rows)
    assert len({row.name for row in table.rows}) == len(table.rows)


def test_differences_and_ratios_are_against_the_leftmost() -> None:
    left, right = record(1), record(2, rule="none")
    cell = row(run_table([left, right]), "Tokens per second").cells[1]
    base, other = left.summary.tokens_per_s, right.summary.tokens_per_s
    assert cell.ratio == f"{number(other / base)}×"
    assert cell.delta == signed(number, other - base) and cell.delta.startswith("−")
    turned = row(run_table([right, left]), "Tokens per second").cells[1]
    assert turned.delta.startswith("+") and turned.delta[1:] == cell.delta[1:]
    assert set(RATIOS) <= {quantity.name for quantity in MEASURES}


def test_rows_know_whether_all_runs_agree() -> None:
    table = run_table([record(1), replace(record(2), config=record(1).config)])
    assert all(row.same for row in table.rows)
    table = run_table([record(1), record(2, rule="mars", seed=4)])
    assert not row(table, "Rule").same and not row(table, "Seed").same and row(table, "Target").same
    plain = record(1, rule="none")  # what is no number equals itself
    assert math.isnan(plain.summary.acceptance_rate)
    assert all(row.same for row in run_table([plain, replace(plain, id="b")]).rows)


@pytest.mark.parametrize(
    ("write", "difference", "words"),
    [
        (number, 1.234, "+1.23"), (number, -1.234, "−1.23"), (number, 0.0, "±0"), (number, math.nan, ""), (number, math.inf, ""),
        (duration, -0.012, "−12.0 ms"), (duration, 2.5, "+2.50 s"), (share, 0.015, "+1.50 pp"), (share, -0.015, "−1.50 pp"),
    ],
)  # fmt: skip
def test_differences_carry_their_sign_and_unit(write: object, difference: float, words: str) -> None:
    assert signed(write, difference) == words  # type: ignore[arg-type]


def test_runs_of_a_comparison_stand_in_the_order_of_their_lanes_and_others_after_them() -> None:
    left, middle, right = (replace(record(3 - lane), lane=lane) for lane in range(3))  # the last was executed first
    other = replace(record(9), comparison_id="b" * 32)
    assert with_run([], middle) == (middle.id,)
    assert with_run([middle], left) == (left.id, middle.id)
    assert with_run([left, right], middle) == (left.id, middle.id, right.id)
    assert with_run([left, other], right) == (left.id, right.id, other.id)
    assert with_run([right, left], middle) == (middle.id, right.id, left.id)
    assert with_run([left], other) == (left.id, other.id)


def test_moved_left_is_the_baseline_and_nothing_is_lost(tmp_path: Path) -> None:
    a, b, c = (letter * 32 for letter in "abc")
    with RunStore(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        moved = [acted(store, Address(runs=(a, b)), {"action": "left", "run": run})[0].runs for run in (b, c, "x")]
    assert moved == [(b, a), (a, b), (a, b)]


def test_hostile_text_is_spelt_out_and_a_tree_told_by_its_shape() -> None:
    hostile = replace(record(1), text=HOSTILE, name=HOSTILE)
    table = run_table([hostile])
    shown = row(table, "Text").cells[0].text + table.columns[0]["name"]
    assert "\u202e" not in shown and "\x1b" not in shown and "⟨U+202E⟩" in shown
    trace = make_tree_trace(new_tokens=8)
    config = replace(record(1), config=trace.config, summary=trace.summary)
    assert row(run_table([config]), "K").cells[0].text == "tree of 24, depth 6, top-k 4"
    assert row(run_table([config]), "Drafts from").cells[0].text == "EAGLE-3 head"
