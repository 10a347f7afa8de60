"""What the page's result says, against numbers worked out by hand."""

from __future__ import annotations

from bench.common.report import Report, markdown, spread
from bench.page.__main__ import Click, Start, browser_parts, figures, generator_parts
from bench.page.stream import Shown

SHOWN = Shown(
    direct=1.0, total=1.6, opening=0.1, steps=1.0, rows=0.01, ended=0.01, warm_up=0.2, saving=0.1, closing=0.15
)  # streaming 1.05: 5 % above the runs alone; of it 30 ms neither steps nor rows nor ended views
STARTS = (Start(3.0, 4.0, 3.2), Start(4.0, 5.0, 3.125), Start(5.0, 6.0, 4.0))
COLD, LATER = Click(10, 20, 900, 4000), Click(40, 90, 250, 2000)


def text(*starts: Start) -> str:
    found = figures(starts, [(COLD, LATER)] * 3, [SHOWN] * 3)
    return markdown(Report("The page", figures=found))


def test_cold_clicks_are_kept_apart_and_goals_are_judged() -> None:
    found = text(*STARTS)
    assert "| process start to a usable page | 5 s | ≤ 5 | yes | 4 to 6, n = 3 |" in found
    assert "first comparison after a start | 900 ms | – | – | 900 to 900, n = 3 |" in found
    assert "| click to the first token, later ones | 250 ms | ≤ 300 | yes | 250 to 250, n = 3 |" in found
    assert "| streaming over the runs' time, without a browser | 5.00 % | ≤ 2 | no |" in found


def test_parts_add_up() -> None:
    parts = browser_parts([LATER] * 3, [1600] * 3) | generator_parts([SHOWN] * 3)
    assert spread(parts["to the waiting lanes"]).median == 50
    assert spread(parts["to the end: both runs, saved and painted"]).median == 1750
    assert spread(parts["click to the end over the runs' own time, %"]).median == 25
    assert round(spread(parts["streaming: the rest (threads, views, JSON)"]).median, 6) == 30


def test_a_start_is_judged_by_the_import_of_gradio_of_the_same_start() -> None:
    """4 / 3.2, 5 / 3.125 and 6 / 4: the median is 1.5."""
    assert "| usable page / gradio alone | 1.50 × | ≤ 1.5 | yes | 1.25 to 1.60, n = 3 |" in text(*STARTS)
    assert "| usable page / gradio alone | 1.63 × | ≤ 1.5 | no |" in text(Start(3.0, 4.9, 3.0))
