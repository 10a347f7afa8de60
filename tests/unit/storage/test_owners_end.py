"""What is removed or transferred: all of it, nothing of others."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from storage import RunStore, Shared
from tests.unit.storage.studying import counts
from tests.unit.storage.test_owners import everything_of, make


def test_all_of_one_owner_goes_and_nothing_of_others(store: RunStore) -> None:
    anna, boris = make(store.of("anna"), "annas things"), make(store.of("boris"), "boris things")
    make(store, "everybodys things")
    for things in (anna, boris):
        store.share(Shared.COMPARISON, things.comparison)
    others = {name: rows for name, rows in counts(store).items() if name != "shares"}
    assert store.of("anna").delete_everything() == 4
    left = repr(everything_of(store))
    assert not [mark for mark in anna.marks if mark in left]
    assert counts(store) == {name: rows * 2 // 3 for name, rows in others.items()} | {"shares": 1}
    assert set(astuple(store.of("anna").counts())) == {0}
    assert (store.of("boris").count(), store.count()) == (3, 6)
    assert store.of("anna").delete_everything() == 0


def test_everything_moves_to_the_other_owner(store: RunStore) -> None:
    anna = make(store.of("browser:anna"), "annas things")
    make(store.of("boris"), "boris things")
    token = store.of("browser:anna").share(Shared.STUDY, anna.done)
    before = repr(everything_of(store))
    assert store.give("browser:anna", "account:anna") == 4
    assert repr(everything_of(store)).replace("account:anna", "browser:anna") == before
    assert set(astuple(store.of("browser:anna").counts())) == {0}
    assert store.of("account:anna").counts().shares == 1
    assert store.through(token).study(anna.done).plan == {"y": "plan annas things"}
    for wrong in ("", "x" * 65):
        for owners in ((wrong, "boris"), ("boris", wrong)):
            with pytest.raises(ValueError, match="owner has"):
                store.give(*owners)
