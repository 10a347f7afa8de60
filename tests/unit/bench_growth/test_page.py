"""What the page's result says, against numbers worked out by hand."""

from __future__ import annotations

from bench.page_report import Click, Result, Start, report
from bench.page_stream import Shown

SHOWN = Shown(
    direct=1.0, total=1.6, opening=0.1, steps=1.0, rows=0.01, ended=0.01, warm_up=0.2, saving=0.1, closing=0.15
)  # streaming 1.05: 5 % above the runs alone; of it 30 ms neither steps nor rows nor ended views
RESULT = Result(
    starts=(Start(3.0, 4.0), Start(4.0, 5.0), Start(5.0, 6.0)),
    clicks=((Click(10, 20, 900, 4000), Click(40, 90, 250, 2000)),) * 3,
    runs_ms=((1000, 1600),) * 3,
    shown=(SHOWN,) * 3,
    stages={"import torch": 1.25},
)


def test_cold_clicks_are_kept_apart_and_goals_are_judged() -> None:
    text = report(RESULT, {"date": "today"})
    assert "| process start to a usable page, s | 5.00 (4.50–5.50), n = 3 | 5 | yes |" in text
    assert "first comparison after a start, ms | 900.00 (900.00–900.00), n = 3 | – | – |" in text
    assert "| click to the first token, later ones, ms | 250.00 (250.00–250.00), n = 3 | 300 | yes |" in text
    assert "| streaming over the runs' time, without a browser, % | 5.00 (5.00–5.00), n = 3 | 2 | no |" in text


def test_parts_add_up() -> None:
    text = report(RESULT, {})
    for part, value in (
        ("to the waiting lanes", "50.00"),
        ("to the end: both runs, saved and drawn", "1750.00"),
        ("click to the end over the runs' own time, %", "25.00"),
        ("streaming: the rest (threads, views, JSON)", "30.00"),
    ):
        assert f"| {part} | {value} ({value}–{value}) |" in text
    assert "| import torch | 1.25 |" in text
