"""What is removed, expires or is transferred: all of it, nothing of others, a little at a time."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from storage import RunStore, Shared
from storage.schema import ComparisonRow, Study
from tests.unit.storage.studying import counts
from tests.unit.storage.test_owners import everything_of, make

NOW = datetime.now(UTC)
TOMORROW = NOW + timedelta(days=1)


def made_at(store: RunStore, at: datetime, *things: str) -> None:
    """Let these comparisons and studies have been made then."""
    with store._write("not changed") as connection:
        for table in (ComparisonRow, Study):
            value = at.replace(tzinfo=None) if connection.dialect.name == "sqlite" else at
            names = ", ".join(f"'{thing}'" for thing in things)
            change = f"UPDATE {table.__tablename__} SET created_at = :at WHERE id IN ({names})"
            connection.execute(text(change), {"at": value})


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


def test_old_things_expire(store: RunStore) -> None:
    mine = store.of("anna")
    old, new = make(mine, "old things"), make(mine, "new things")
    everybodys = make(store, "everybodys things")
    for things in (old, everybodys):
        made_at(store, NOW - timedelta(days=31), *(mark for mark in things.marks[1:]))
    assert store.expire(NOW - timedelta(days=30)) == 2  # and those that went with their study
    left = repr(everything_of(store))
    assert not [mark for mark in old.marks if mark in left]
    assert all(mark in left for mark in (*new.marks, *everybodys.marks))
    boris = make(store.of("boris"), "boris things")
    assert mine.purge(TOMORROW) == 1
    assert store.of("boris").counts().deleted == 1
    assert mine.expire(TOMORROW) == 1
    left = repr(everything_of(store))
    assert not [mark for mark in new.marks if mark in left]
    assert all(mark in left for mark in boris.marks)
