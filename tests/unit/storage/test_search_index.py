"""Finding among thousands: a bounded number of statements, which read indexes and neither steps nor tokens."""

from __future__ import annotations

from functools import partial

import pytest

from mars_core.types import Status
from storage import RunStore, Search, Sort
from tests.unit.storage.test_comparisons import fill, plans_of, statements


def test_five_thousand_comparisons_are_found_in_few_statements(sqlite_store: RunStore) -> None:
    ids = fill(sqlite_store, 5000)
    sqlite_store.annotate(ids[7], name="the one", tags=["t"])
    asked = Search(text="ONE", rule="mars", target="demo/target", status=Status.COMPLETED, tag="t", sort=Sort.TAU)
    for search, total in ((Search(offset=4900), 5000), (asked, 1)):
        with statements() as seen:
            result = sqlite_store.find(search)
        assert result.total == total and not result.more
        assert len(seen) == 4
        assert not any("run_traces" in statement for statement in seen)


@pytest.mark.parametrize("descending", [True, False])
def test_list_is_read_in_the_order_of_the_index(sqlite_store: RunStore, descending: bool) -> None:
    fill(sqlite_store, 50)
    search = Search(without_batches=True, descending=descending)
    page, every, rows, lanes = plans_of(sqlite_store, lambda: sqlite_store.find(search))
    index = "COVERING INDEX ix_comparisons_by_created_at"
    assert page == every == [f"SCAN comparisons USING {index}"]  # no TEMP B-TREE: it stops at the end of the page
    assert len(rows) == len(lanes) == 1 and lanes[0].startswith("SEARCH runs USING INDEX")
    page, every, *_ = plans_of(sqlite_store.of("anna"), lambda: sqlite_store.of("anna").find(search))
    assert page == every == ["SEARCH comparisons USING COVERING INDEX ix_comparisons_by_owner (owner=?)"]


@pytest.mark.parametrize("owner", [None, "anna"])
def test_a_sorted_list_is_read_in_the_order_of_an_index_of_its_own(sqlite_store: RunStore, owner: str | None) -> None:
    fill(sqlite_store, 50)
    mine = sqlite_store.of(owner)
    for sort in (Sort.TOKENS_PER_S, Sort.TAU, Sort.NEW_TOKENS, Sort.NAME):
        by, rest = ("name_key", ["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"]) if sort is Sort.NAME else (sort, [])
        page, *_ = plans_of(mine, partial(mine.find, Search(sort=sort, descending=sort is not Sort.NAME)))
        assert page == [f"SCAN comparisons USING COVERING INDEX ix_comparisons_by_{by}", *rest]


def test_few_are_looked_up_by_what_was_asked_for(sqlite_store: RunStore) -> None:
    fill(sqlite_store, 50)
    for asked in (Search(rule="x"), Search(target="x"), Search(status=Status.FAILED), Search(tag="t")):
        _, page, *_ = plans_of(sqlite_store, partial(sqlite_store.find, asked))
        assert any("ix_facets_by_value" in step or "ix_facets_by_owner" in step for step in page)
        assert not any(step.startswith("SCAN comparisons") for step in page)


def test_choices_are_looked_up_one_after_the_other(sqlite_store: RunStore) -> None:
    fill(sqlite_store, 50)
    own = sqlite_store.of("anna")
    for store, index in ((sqlite_store, "ix_facets_by_value (kind=?"), (own, "ix_facets_by_owner (owner=?")):
        for plan in plans_of(store, store.choices):
            looked = [step for step in plan if "facets" in step]
            assert len(looked) == 2 and all(step.startswith("SEARCH facets") and index in step for step in looked)
