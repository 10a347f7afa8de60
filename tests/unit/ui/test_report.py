"""The table of numbers for any number of runs."""

from __future__ import annotations

from dataclasses import replace

from tests.traces import make_trace, make_tree_trace
from ui.kit.labels import lane_label, rule_title, run_names, settings_line
from ui.kit.values import Cell
from ui.result.numbers import QUANTITIES, comparison_table

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
