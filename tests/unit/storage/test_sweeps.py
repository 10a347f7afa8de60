"""Sweeps of earlier releases can be read; what is not there is named. Those of this release are studies that say so."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from mars_core.types import Status
from storage import RunStore, Search, Shared, Source, StorageError
from tests.old_sweeps import add_old_sweep, belongs_to_sweep
from tests.traces import make_trace, same
from tests.unit.storage.exports import parsed, runs_csv
from tests.unit.storage.studying import worked_off
from tests.unit.storage.test_roundtrip import ANY_TEXT

PLAN = {"rules": ["mars"], "theta": [0.84, 0.9], "prompts": ["a\x00", "\ud800"], "reference": None}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def equal(left: object, right: object) -> bool:
    """JSON need not keep the sign of zero, nor the order of names."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    return type(left) is type(right) and (left == right or same(left, right))


def test_sweeps_are_latest_first(store: RunStore) -> None:
    ids = [add_old_sweep(store, {"number": number}, [{"tau": 2.5}] * number) for number in range(5)]
    assert [(sweep.id, sweep.results) for sweep in store.sweeps()] == [*zip(ids[::-1], range(4, -1, -1), strict=True)]
    assert [sweep.plan["number"] for sweep in store.sweeps(limit=2)] == [4, 3]
    assert store.sweeps(limit=0) == ()


def test_comparison_knows_its_sweep(store: RunStore) -> None:
    sweep_id = add_old_sweep(store, PLAN, [{"tau": 2.5}], Status.COMPLETED)
    trace = make_trace(new_tokens=2)
    comparison_id = store.new_comparison(trace.config.prompt, source=Source.SWEEP)
    belongs_to_sweep(store, comparison_id, sweep_id)
    store.save_run(comparison_id, trace, lane=0, order=0)
    loaded, sweep = store.load(comparison_id), store.sweep(sweep_id)
    assert (loaded.source, loaded.sweep_id) == (Source.SWEEP, sweep_id)
    assert (sweep.plan, sweep.results, sweep.status) == (PLAN, [{"tau": 2.5}], Status.COMPLETED)
    assert store.find(Search(source=Source.SWEEP)).frame["source"].tolist() == [Source.SWEEP]
    assert store.find(Search(without_batches=True)).total == 0
    (row,) = parsed(runs_csv(store))
    assert (row["source"], row["sweep_id"]) == ("sweep", sweep_id)


def test_a_study_that_varies_a_parameter_is_a_sweep_and_no_other_is(lasting_store: RunStore) -> None:
    mine = lasting_store.of("sweeper")
    plans = ({"varied": "theta"}, {"varied": ""}, {"varied": None}, {})
    first, second, third, fourth = (mine.new_study("", plan, 1) for plan in plans)
    assert [study.id for study in mine.studies(sweeps=True)] == [second, first]
    assert [study.id for study in mine.studies()] == [fourth, third]
    counts = mine.counts()
    assert (counts.sweeps, counts.studies) == (2, 2)


def test_a_sweep_that_is_a_study_is_shared_as_a_sweep(store: RunStore) -> None:
    mine = store.of("anna")
    sweep_id = mine.new_study("θ", {"varied": "theta"}, 1)
    worked_off(mine, sweep_id)
    token = mine.share(Shared.SWEEP, sweep_id)
    assert [(share.kind, share.object_id) for share in mine.shares()] == [(Shared.SWEEP, sweep_id)]
    assert mine.shared(Shared.SWEEP, sweep_id)
    seen = store.through(token)
    assert seen.results(sweep_id) == mine.results(sweep_id) != ()
    assert [study.id for study in seen.studies(sweeps=True)] == [sweep_id]
    with pytest.raises(StorageError, match="There is no sweep with the id"):
        store.of("boris").share(Shared.SWEEP, sweep_id)
    mine.unshare(Shared.SWEEP, sweep_id)
    assert not mine.shared(Shared.SWEEP, sweep_id) and mine.shares() == ()
