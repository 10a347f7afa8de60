"""The shift meter: what a lossless rule must read, what infinity means, and the figure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mars_core.types import RuleConfig, Trace
from tests.traces import make_trace, make_tree_trace
from ui.figures.plot import Run
from ui.figures.shift import shift_plot
from ui.result.numbers import SHIFT_QUANTITIES as QUANTITIES
from ui.result.numbers import infinite_note, self_check, summary_table
from ui.token_view.tiles import FLOAT_ERROR, lane_check

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
    table = summary_table([STRICT, MARS, PLAIN], QUANTITIES)
    assert table.heads == ("", "Strict", "MARS", "Target alone")
    assert [row[0] for row in table.rows] == [quantity.name for quantity in QUANTITIES]
    assert all(len(cells) == 3 and not any(cell.ratio for cell in cells) for _, _, cells in table.rows)
    assert table.rows[0][2][0].text == "0"


def test_an_infinite_divergence_is_written_and_explained() -> None:
    greedy = make_tree_trace(new_tokens=60)
    assert greedy.summary.kl_sum == float("inf")
    assert "∞" in next(row for row in summary_table([greedy], QUANTITIES).rows if row[0] == "KL, summed")[2][0].text
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
