"""Finding: every comparison that fits and no other, in the requested order, page by page, whatever
is typed; by indexes, not by reading."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mars_core.types import PromptConfig, Trace
from storage import RunStore, Search, Sort
from tests.traces import make_trace
from tests.unit.storage.exports import as_stored, failing, save
from tests.unit.storage.test_comparisons import fill, plans_of
from tests.unit.storage.test_roundtrip import ANY_TEXT


def matches(store: RunStore, **criteria: object) -> list[str]:
    """The ids, which must be as many as the total says."""
    result = store.find(Search(**criteria))  # type: ignore[arg-type]
    ids: list[str] = [row["id"] for row in result.rows]
    assert (result.total, result.more) == (len(ids), False)
    assert store.matching_ids(Search(**criteria)) == ids  # type: ignore[arg-type]
    return ids


def found(part: str, text: str) -> bool:
    return as_stored(part).casefold() in as_stored(text).casefold()


def with_summary(trace: Trace, **numbers: float) -> Trace:
    return replace(trace, summary=replace(trace.summary, **numbers))  # type: ignore[arg-type]


def test_no_text_is_found_across_the_border_of_two(store: RunStore) -> None:
    comparison_id = store.new_comparison(PromptConfig("one"))
    store.annotate(comparison_id, name="two", comment="three", tags=["four", "five"])
    across = "onetwo|one two|one\ntwo|onezthree|onez|zz|fourfive|0000|241b"
    assert [text for text in across.split("|") if matches(store, text=text)] == []


def test_the_best_run_counts_and_what_has_no_number_comes_last(store: RunStore) -> None:
    trace, sorts = make_trace(new_tokens=2), (Sort.TOKENS_PER_S, Sort.TAU, Sort.NEW_TOKENS)

    def saved(*numbers: float) -> str:
        worst = {Sort.NEW_TOKENS: 0}  # a whole number cannot be nan
        values = (
            {
                sort.value: worst.get(sort, number) if math.isnan(number) else number
                for sort in sorts
            }
            for number in numbers
        )
        return save(store, *(with_summary(trace, **each) for each in values))

    low, high, middle = saved(1, 2), saved(9, math.nan, 3), saved(4, 1, 5)
    empty = store.new_comparison(PromptConfig("no runs"))
    for sort in sorts:
        assert matches(store, sort=sort) == [high, middle, low, empty]
        assert matches(store, sort=sort, descending=False) == [low, middle, high, empty]


@settings(max_examples=40)
@example(text="\uffff", start=0, length=1, other="")
@example(text='"""', start=0, length=3, other="")
@example(text="a", start=0, length=1, other="A")
@example(
    text="\udddd\ud800", start=0, length=1, other="\uddd8"
)  # whose four letters are there, out of step
@given(text=ANY_TEXT, start=st.integers(0, 40), length=st.integers(1, 40), other=ANY_TEXT)
def test_exactly_every_part_of_a_text_is_found(
    lasting_store: RunStore, text: str, start: int, length: int, other: str
) -> None:
    comparison_id = lasting_store.new_comparison(PromptConfig(text))
    for part in filter(None, (text[start : start + length], other)):
        there = comparison_id in matches(lasting_store, text=part, limit=1000)
        assert there == found(part, text)
    lasting_store.delete(comparison_id)


def test_more_than_are_counted_are_reported_as_more(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.runs.search.COUNTED", 2)
    ids = [store.new_comparison(PromptConfig(f"needle {number}")) for number in range(4)]
    result = store.find(Search(text="needle", limit=3))
    assert (result.total, result.more, [row["id"] for row in result.rows]) == (2, True, ids[:0:-1])
    result = store.find(Search(text="needle 1"))
    assert (result.total, result.more) == (1, False)
    for limit, offset in ((-1, 0), (5, -1)):
        with failing("must be 0 or more"):
            store.find(Search(limit=limit, offset=offset))


def test_lists_are_read_in_the_order_of_an_index(sqlite_store: RunStore) -> None:
    """Of everything and of one owner, in both directions: no TEMP B-TREE, for it stops at the end
    of the page."""
    fill(sqlite_store, 50)
    anna = sqlite_store.of("anna")
    covering = "comparisons USING COVERING INDEX ix_comparisons_by_"
    for store, step in (
        (sqlite_store, f"SCAN {covering}created_at"),
        (anna, f"SEARCH {covering}owner (owner=?)"),
    ):
        for descending in (True, False):
            wanted = Search(without_batches=True, descending=descending)
            every, page, *frame = plans_of(store, partial(store.find, wanted))
            assert page == every == [step]
            assert not frame or frame[1][0].startswith("SEARCH runs USING INDEX")
        for sort in set(Sort) - {Sort.CREATED}:
            named = sort is Sort.NAME
            wanted = Search(sort=sort, descending=not named)
            _, page, *_ = plans_of(store, partial(store.find, wanted))
            rest = ["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"] if named else []
            assert page == [f"SCAN {covering}{'name_key' if named else sort}", *rest]
