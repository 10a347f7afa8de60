"""Sweeps: what is loaded is what was saved, and a sweep that was killed does not say that it was completed."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mars_core.types import PromptConfig, Status
from storage import RunStore, Search, Source, StorageError
from tests.traces import make_trace, same
from tests.unit.storage.exports import parsed, runs_csv
from tests.unit.storage.test_roundtrip import ANY_TEXT

PLAN = {"rules": ["mars"], "theta": [0.84, 0.9], "prompts": ["a\x00", "\ud800"], "reference": None}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def test_new_sweep_is_not_completed(store: RunStore) -> None:
    loaded = store.sweep(store.new_sweep(PLAN))
    assert (loaded.status, loaded.plan, loaded.results) == (Status.CANCELLED, PLAN, [])


def test_update_takes_the_place_of_what_was_there(store: RunStore) -> None:
    sweep_id = store.new_sweep(PLAN)
    store.update_sweep(sweep_id, status=Status.CANCELLED, results=[{"theta": 0.84, "tau": math.inf}])
    assert store.sweep(sweep_id).results == [{"theta": 0.84, "tau": math.inf}]
    store.update_sweep(sweep_id, status=Status.COMPLETED, results=[{"theta": 0.9}, {}])
    loaded = store.sweep(sweep_id)
    assert (loaded.status, loaded.plan, loaded.results) == (Status.COMPLETED, PLAN, [{"theta": 0.9}, {}])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=ANY_JSON)
def test_any_plan_and_result_is_kept(store: RunStore, value: object) -> None:
    sweep_id = store.new_sweep({"x": value})
    store.update_sweep(sweep_id, status=Status.COMPLETED, results=[{"y": value}])
    loaded = store.sweep(sweep_id)
    assert equal(loaded.plan, {"x": value})
    assert equal(loaded.results, [{"y": value}])


def equal(left: object, right: object) -> bool:
    """As ``same``, for lists; JSON need not keep the sign of zero."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    return same(left, right)


def test_what_json_cannot_hold_is_refused(store: RunStore) -> None:
    with pytest.raises(StorageError, match=r"The sweep was not saved: .*JSON holds no object"):
        store.new_sweep({"x": object()})
    assert store.sweeps() == ()


def test_sweeps_are_latest_first(store: RunStore) -> None:
    ids = [store.new_sweep({"number": number}) for number in range(5)]
    assert [sweep.id for sweep in store.sweeps()] == ids[::-1]
    assert [sweep.plan["number"] for sweep in store.sweeps(limit=2)] == [4, 3]
    assert store.sweeps(limit=0) == ()


@pytest.mark.parametrize("missing", ["", "0" * 32, "\x00", "\ud800"])
def test_unknown_sweep_is_named(store: RunStore, missing: str) -> None:
    for action in (
        lambda: store.sweep(missing),
        lambda: store.update_sweep(missing, status=Status.COMPLETED, results=[]),
        lambda: store.new_comparison(PromptConfig("x"), source=Source.SWEEP, sweep_id=missing),
    ):
        with pytest.raises(StorageError, match="There is no sweep with the id"):
            action()
    assert store.count() == 0


def test_comparison_knows_its_sweep(store: RunStore) -> None:
    sweep_id = store.new_sweep(PLAN)
    trace = make_trace(new_tokens=2)
    comparison_id = store.new_comparison(trace.config.prompt, source=Source.SWEEP, sweep_id=sweep_id)
    store.save_run(comparison_id, trace, lane=0, order=0)
    loaded = store.load(comparison_id)
    assert (loaded.source, loaded.sweep_id) == (Source.SWEEP, sweep_id)
    assert store.find(Search(source=Source.SWEEP)).frame["source"].tolist() == [Source.SWEEP]
    assert store.find(Search(without_batches=True)).total == 0
    (row,) = parsed(runs_csv(store))
    assert (row["source"], row["sweep_id"]) == ("sweep", sweep_id)
