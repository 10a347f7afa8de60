"""What the load measurement concludes from answers, against cases worked out by hand. Starts no page."""

from __future__ import annotations

from dataclasses import replace

from bench.common.report import markdown
from bench.load.__main__ import Crowd, Row, overtaken, report, requests_of
from bench.load.crowd import Request, Response


def response(started_s: float, ended_s: float) -> Response:
    return Response(Request("o" * 22, "Hi", 0), ("text",), "id", "", 0, started_s, ended_s)


def test_who_asked_later_and_is_served_earlier_overtakes() -> None:
    first, second, third = response(0, 9), response(2, 5), response(4, 12)
    assert overtaken([first, second, third]) == 1
    assert overtaken([first, third]) == 0


def test_asking_at_about_the_same_moment_is_no_order() -> None:
    assert overtaken([response(0, 9), response(0.9, 5)]) == 0


def test_every_client_has_an_owner_of_its_own() -> None:
    asked = requests_of(50, 16)
    assert len({one.owner for one in asked}) == len({one.seed for one in asked}) == 50
    assert all(len(one.owner) >= 22 for one in asked)


def test_memory_is_compared_from_the_two_hundredth_run() -> None:
    row = Row(400, 100, (50, 90, 100, 101, 110), failed=0)
    assert abs(row.drift - 0.10) < 1e-9


def test_the_report_tells_what_went_wrong() -> None:
    late, early = replace(response(0, 9), waiting=1), response(2, 5)
    refused = replace(response(0, 0.5), texts=(), error="The line is full.")
    crowd = Crowd("as set", [late, early], [refused], different=1, foreign=2, quick_s=[0.1, 1.5, 2.5])
    text = markdown(report([crowd], Row(200, 100, (1_000_000, 1_000_000, 2_000_000), 4)))
    assert "| as set | 3 | 2 | 1 | 1 | 2 | 1 | 1 |" in text
    assert "| /rules meanwhile, room as set | 1.50 s | ≤ 1 | no | 0.100 to 2.50, n = 3; longest 2.50 |" in text
    assert "“The line is full.”" in text and "4 comparisons failed" in text
