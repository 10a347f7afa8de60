"""What the load measurement concludes from answers, against cases worked out by hand. Starts no page."""

from __future__ import annotations

from bench.crowd import Got, Wanted
from bench.load import Crowd, Row, overtaken, report, wanted


def got(asked_s: float, ended_s: float) -> Got:
    return Got(Wanted("o" * 22, "Hi", 0), ("text",), "id", "", 0, asked_s, ended_s)


def test_who_asked_later_and_is_served_earlier_overtakes() -> None:
    first, second, third = got(0, 9), got(2, 5), got(4, 12)
    assert overtaken([first, second, third]) == 1
    assert overtaken([first, third]) == 0


def test_asking_at_about_the_same_moment_is_no_order() -> None:
    assert overtaken([got(0, 9), got(0.9, 5)]) == 0


def test_every_client_has_an_owner_of_its_own() -> None:
    asked = wanted(50, 16)
    assert len({one.owner for one in asked}) == len({one.seed for one in asked}) == 50
    assert all(len(one.owner) >= 22 for one in asked)


def test_memory_is_compared_from_the_two_hundredth_run() -> None:
    row = Row(400, 100, (50, 90, 100, 101, 110), failed=0)
    assert abs(row.drift - 0.10) < 1e-9


def test_the_report_tells_what_went_wrong() -> None:
    crowd = Crowd("as set", 50, 21, 29, 1, 2, 3, 20, (1.0, 3.0), (0.5,), (0.1,), "The line is full.")
    text = report([crowd], Row(200, 100, (1_000_000, 1_000_000, 2_000_000), 4), {})
    assert "| 50 | as set | 21 | 29 | 1 | 2 | 3 | 20 |" in text
    assert "“The line is full.”" in text and "4 comparisons failed" in text
