"""The table of numbers for any number of runs, and the shift meter: what a lossless rule must read, and what infinity means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mars_core.types import RuleConfig, Trace
from tests.traces import make_trace, make_tree_trace
from ui.figures.plot import Run
from ui.figures.shift import shift_plot
from ui.kit.labels import lane_label, rule_title, run_names, settings_line
from ui.kit.values import Cell
from ui.result.numbers import QUANTITIES, SHIFT_QUANTITIES, comparison_table, infinite_note, self_check, summary_table
from ui.token_view.tiles import FLOAT_ERROR, lane_check

RUNS = [make_trace(rule=rule, new_tokens=60) for rule in ("strict", "mars", "mars-gap", "none")]


def test_each_run_after_the_first_has_its_ratio_to_the_first_and_heads_name_the_runs_in_lane_order() -> None:
    for amount in (2, 3, 4):
        table = comparison_table(RUNS[:amount])
        assert len(table.heads) == 2 * amount and len(table.rows) == len(QUANTITIES)
        for _, _, cells in table.rows:
            assert [cell.ratio for cell in cells] == [False] + [False, True] * (amount - 1)
    heads = comparison_table(RUNS[:3]).heads
    assert heads[1::2] == (lane_label(RUNS[0].config), "/ left", "/ left")
    assert heads[2::2] == tuple(lane_label(run.config) for run in RUNS[1:3])
    assert comparison_table(RUNS[:2]).heads[-1] == "right / left"


def test_ratios_are_those_of_the_summaries_and_carry_a_verdict() -> None:
    left = RUNS[0]
    faster = replace(left, summary=replace(left.summary, tau=1.5 * left.summary.tau, ttft_s=2 * left.summary.ttft_s))
    ratios = {name: cells[2] for name, _, cells in comparison_table([left, faster]).rows}
    assert ratios["τ, tokens per step"] == Cell("1.50×", True, "better")
    assert ratios["Time to first token"] == Cell("2.00×", True, "worse")
    assert ratios["Output length"] == Cell("1.00×", True, "")


def test_runs_are_told_apart_by_as_little_as_that_takes() -> None:
    configs = [run.config for run in RUNS]
    assert run_names(configs[:2]) == ("Strict", "MARS")
    other = make_trace(rule="mars", theta=0.8).config
    assert run_names([configs[1], other]) == ("MARS θ = 0.9", "MARS θ = 0.8")
    assert run_names([configs[0], configs[0]]) == ("Strict (left)", "Strict (right)")
    assert run_names([configs[0], configs[1], configs[0]]) == ("Strict (lane 1)", "MARS θ = 0.9", "Strict (lane 3)")


def test_the_settings_name_the_drafter_with_its_own_parameters() -> None:
    assert "tree of 24, depth 6, top-k 4 · EAGLE-3 drafts" in settings_line(make_tree_trace().config)
    assert "K 5 · greedy drafts" in settings_line(RUNS[0].config)
    assert "drafts" not in settings_line(RUNS[3].config)
    assert rule_title("made-up") == "made-up"


STRICT, MARS, PLAIN = (make_trace(rule=rule, new_tokens=80) for rule in ("strict", "mars", "none"))


def shifted(trace: Trace, tv: float) -> Trace:
    return replace(trace, summary=replace(trace.summary, tv_max=tv))


def test_float_error_is_no_shift_and_more_is_a_warning() -> None:
    check = self_check([STRICT, MARS])
    assert (check.state, check.text) == ("ok", "Self-check: Strict shifted nothing (largest TV 0).")
    assert self_check([shifted(STRICT, 0.9 * FLOAT_ERROR)]).state == "ok"
    bad = self_check([STRICT, shifted(STRICT, 0.02)])
    assert bad.state == "bad" and bad.text.startswith("Self-check failed: Strict") and "0.0200" in bad.text


def test_only_lossless_rules_with_tokens_are_checked() -> None:
    for rule, checked in (("strict", True), ("block", True), ("mars", False), ("typical", False)):
        config = replace(STRICT.config, rule=RuleConfig(rule))
        assert bool(lane_check(config, 0.5, 10).state) is checked, rule
    assert "Target alone" in self_check([PLAIN]).text
    assert lane_check(STRICT.config, 0.0, 0).state == ""
    assert "Add Target alone or Strict or Block verification" in self_check([MARS]).text


def test_the_table_has_a_column_a_run_and_no_ratio() -> None:
    table = summary_table([STRICT, MARS, PLAIN], SHIFT_QUANTITIES)
    assert table.heads == ("", "Strict", "MARS", "Target alone")
    assert [row[0] for row in table.rows] == [quantity.name for quantity in SHIFT_QUANTITIES]
    assert all(len(cells) == 3 and not any(cell.ratio for cell in cells) for _, _, cells in table.rows)
    assert table.rows[0][2][0].text == "0"


def test_an_infinite_divergence_is_written_and_explained() -> None:
    greedy = make_tree_trace(new_tokens=60)
    assert greedy.summary.kl_sum == float("inf")
    assert (
        "∞" in next(row for row in summary_table([greedy], SHIFT_QUANTITIES).rows if row[0] == "KL, summed")[2][0].text
    )
    assert "temperature 0" in infinite_note([greedy]) and "temperature 0" in infinite_note([STRICT, greedy])
    assert infinite_note([STRICT]) == ""


def test_the_figure_has_a_row_of_bars_a_run_on_one_scale() -> None:
    figure = shift_plot([Run(STRICT, 0, "a"), Run(MARS, 2, "b")]).figure
    shifted = [token for token in MARS.tokens if round(token.tv, 6)]
    assert list(figure.data[0].y) == []
    assert list(figure.data[1].y) == pytest.approx([token.tv for token in shifted], abs=1e-6)
    assert list(figure.data[1].x) == [token.position for token in shifted]
    assert figure.layout.xaxis.range == (-0.6, 79.6)
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    assert figure.data[0].marker.color != figure.data[1].marker.color
