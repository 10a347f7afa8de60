"""Finding among thousands: a bounded number of statements, which read indexes and neither steps nor tokens."""

from __future__ import annotations

import pytest

from mars_core.types import Status
from storage import RunStore, Search, Sort
from tests.unit.storage.test_comparisons import fill, plans_of, statements


def test_five_thousand_comparisons_are_found_in_three_statements(sqlite_store: RunStore) -> None:
    ids = fill(sqlite_store, 5000)
    sqlite_store.annotate(ids[7], name="the one", tags=["t"])
    asked = Search(text="ONE", rule="mars", target="demo/target", status=Status.COMPLETED, tag="t", sort=Sort.TAU)
    for search, total in ((Search(offset=4900), 5000), (asked, 1)):
        with statements() as seen:
            result = sqlite_store.find(search)
        assert result.total == total
        assert len(seen) == 3
        assert not any(table in statement for statement in seen for table in ("steps ", "tokens "))


@pytest.mark.parametrize("descending", [True, False])
def test_list_is_read_in_the_order_of_the_index(sqlite_store: RunStore, descending: bool) -> None:
    fill(sqlite_store, 50)
    every, page, lanes = plans_of(
        sqlite_store, lambda: sqlite_store.find(Search(without_batches=True, descending=descending))
    )
    index = "INDEX ix_comparisons_deleted_at_created_at_id_source (deleted_at=?)"
    assert every == [f"SEARCH comparisons USING COVERING {index}"]
    assert page == [f"SEARCH comparisons USING {index}"]  # no TEMP B-TREE: it stops at the end of the page
    assert len(lanes) == 1 and lanes[0].startswith("SEARCH runs USING INDEX")


@pytest.mark.parametrize(
    "asked", [Search(rule="mars"), Search(target="x"), Search(status=Status.FAILED), Search(sort=Sort.TAU)]
)
def test_runs_are_read_by_their_comparison(sqlite_store: RunStore, asked: Search) -> None:
    fill(sqlite_store, 50)
    plans = plans_of(sqlite_store, lambda: sqlite_store.find(asked))
    steps = [step for plan in plans for step in plan if " runs" in step]
    assert steps
    assert all(step.startswith("SEARCH runs USING") for step in steps)
    if asked.sort is Sort.TAU or asked.status:
        assert any("COVERING INDEX ix_runs_comparison_id_status" in step for step in steps)
