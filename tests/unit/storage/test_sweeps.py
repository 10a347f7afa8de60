"""A sweep is a study whose plan names the varied parameter."""

from __future__ import annotations

import pytest

from mars_core.types import PromptConfig
from storage import RunStore, Search, Shared, Source, StorageError
from tests.unit.storage.studying import worked_off


def test_comparisons_of_sweeps_are_found_and_left_out(store: RunStore) -> None:
    swept = store.new_comparison(PromptConfig("x"), source=Source.SWEEP)
    assert store.find(Search(source=Source.SWEEP)).frame["id"].tolist() == [swept]
    assert store.find(Search(without_batches=True)).total == 0


def test_a_study_that_varies_a_parameter_is_a_sweep_and_no_other_is(
    lasting_store: RunStore,
) -> None:
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
    with pytest.raises(StorageError, match="There is no study with the id"):
        store.of("boris").share(Shared.SWEEP, sweep_id)
    mine.unshare(Shared.SWEEP, sweep_id)
    assert not mine.shared(Shared.SWEEP, sweep_id) and mine.shares() == ()
