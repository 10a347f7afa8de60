"""What an address says is read back as it was written, and nothing that cannot be a value is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ui.kit.address import (
    LONGEST,
    MOST_NAMED,
    NAMES,
    Address,
    chosen_tab,
    history_parameters,
    read_address,
    search_query,
    without_search,
)

ID = "0123456789abcdef" * 2
FULL = Address(
    tab="history", comparison=ID, runs=(ID, ID[::-1]), text='a "b" & <c>', rule="mars(theta=0.9)", target="demo/target",
    status="failed", source="sweep", tag="größer", since="2026-01-02", until="2026-03-04", sort="speed", page=3, share="t" * 43,
)  # fmt: skip


def test_an_address_comes_back_as_it_was_written() -> None:
    assert read_address(history_parameters(FULL)) == replace(FULL, tab="")
    assert read_address({}) == Address()


@pytest.mark.parametrize(
    "said",
    [
        {"tab": "../x", "comparison": "x" * 32, "runs": "1,2,<b>", "sweep": "' or 1", "study": "../x"},
        {"status": "great", "source": "x"},
        {"since": "2026-13-40", "until": "tomorrow", "sort": "; drop", "page": "-4", "zone": "none"},
        {"page": "9" * 400, "tab": None, "runs": None},
    ],
)
def test_what_cannot_be_a_value_is_left_out(said: dict[str, object]) -> None:
    assert read_address(said) == Address()


def test_fields_have_bounds() -> None:
    assert read_address({"runs": f"{ID},{ID}"}).runs == (ID,)
    read = read_address({"text": "x" * 10_000, "runs": ",".join(f"{n:032x}" for n in range(500)), "zone": 10**5})
    assert len(read.text) == LONGEST and len(read.runs) == MOST_NAMED and read.zone == 900


def test_history_says_all_its_names_so_that_old_ones_go_and_a_cleared_search_keeps_what_is_open() -> None:
    cleared = without_search(FULL)
    assert (cleared.comparison, cleared.runs, cleared.sort) == (FULL.comparison, FULL.runs, FULL.sort)
    assert not cleared.searching and cleared.page == 1 and search_query(cleared) == ""
    assert set(history_parameters(Address())) == set(NAMES) - {"tab", "sweep", "study"}
    assert not any(history_parameters(Address()).values())


def test_what_is_named_opens_its_tab() -> None:
    for name, tab in (("comparison", "history"), ("sweep", "sweep"), ("study", "quality")):
        assert chosen_tab(read_address({name: ID})) == tab
    assert chosen_tab(read_address({})) == "compare"
    assert chosen_tab(read_address({"tab": "about", "comparison": ID})) == "about"
