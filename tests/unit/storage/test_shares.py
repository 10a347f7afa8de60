"""A link shows one thing, to read, for as long as its owner wants; the database alone opens
none."""

from __future__ import annotations

import hashlib
import io
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from mars_core.types import PromptConfig
from storage import RunStore, Search, Shared, StorageError, write_csv
from storage.export.tables import EXPORTS
from storage.shares import ENDED
from tests.traces import same
from tests.unit.storage.exports import failing
from tests.unit.storage.test_owners import LISTS, UNKNOWN, Things, everything_of, make

LATER = datetime.now(UTC) + timedelta(days=1)
World = tuple[RunStore, Things, Things]
OBJECTS = {Shared.COMPARISON: "comparison", Shared.STUDY: "study"}


@pytest.fixture
def world(store: RunStore) -> World:
    return store, make(store.of("anna"), "annas things"), make(store.of("boris"), "boris things")


@pytest.fixture
def sqlite_world(sqlite_store: RunStore) -> World:
    """Where nothing depends on the database, nor on a second owner."""
    anna = make(sqlite_store.of("anna"), "annas things")
    return sqlite_store, anna, anna


def shared_by_anna(world: World, kind: Shared) -> tuple[str, RunStore]:
    """The token, and what Boris has of it."""
    store, anna, _ = world
    token = store.of("anna").share(kind, getattr(anna, OBJECTS[kind]))
    return token, store.of("boris").through(token)


def ended(store: RunStore, *tokens: str) -> None:
    for token in tokens:
        with failing(ENDED):
            store.through(token)


def test_link_shows_one_thing_and_nothing_else(world: World) -> None:
    store, anna, boris = world
    shared = {
        Shared.COMPARISON: anna.comparison,
        Shared.STUDY: anna.studied,
    }
    for kind, thing in shared.items():
        _token, linked = shared_by_anna(world, kind)
        assert linked.matching_ids(Search(limit=1000)) == [thing]
        assert linked.find(Search()).total == linked.count() == 1
        assert same(linked.load(thing), store.load(thing))
        assert len(linked.studies()) == (kind is Shared.STUDY)
        for head in linked.studies():
            for read in (
                RunStore.study,
                RunStore.results,
                RunStore.judgements,
                RunStore.study_progress,
            ):
                assert read(linked, head.id) == read(store, getattr(anna, OBJECTS[kind]))
        for other in {*shared.values(), anna.deleted, boris.comparison} - {thing}:
            with failing("There is no comparison with the id"):
                linked.load(other)
        assert (linked.votes(), linked.shares(), linked.counts().votes) == ((), (), 0)
        for name in ("runs", "tokens"):
            stream = io.BytesIO()
            write_csv(name, linked, stream)
            written = stream.getvalue().decode()
            assert thing in written
            assert not [mark for mark in (anna.deleted, anna.vote, *boris.marks) if mark in written]
        with failing("There is no comparison with the id"):
            write_csv("runs", linked, io.BytesIO(), [boris.comparison])
        assert (linked.owner, linked.read_only) == (None, True)
        for owner in (None, "anna", "boris"):
            with pytest.raises(ValueError, match="cannot be changed to another scope"):
                linked.of(owner)


def test_link_lets_nobody_write(sqlite_world: World) -> None:
    store, anna, _ = sqlite_world
    calls = [*LISTS.values(), *(call for calls in UNKNOWN.values() for call in calls)]
    calls += [
        lambda s, _: s.purge(LATER),
        lambda s, _: s.expire(LATER),
        lambda s, _: s.remove_unfinished(LATER),
        lambda s, _: s.new_comparison(PromptConfig("x")),
        lambda s, _: s.new_study("", {}, 1),
    ]
    for kind in Shared:
        _token, linked = shared_by_anna(sqlite_world, kind)
        before = everything_of(store)
        for call in calls:
            with suppress(StorageError):
                call(linked, anna)
        with failing("a link gives read access only"):
            linked.new_comparison(PromptConfig("x"))
        with pytest.raises(ValueError, match="Only the objects of one owner"):
            linked.delete_everything()
        with pytest.raises(ValueError, match="transfer only its own objects"):
            linked.give("anna", "boris")
        assert everything_of(store) == before


def test_revoked_or_replaced_link_shows_nothing_at_once(world: World) -> None:
    """Nor does an export that has begun."""
    store, anna, _ = world
    mine = store.of("anna")
    for kind in Shared:
        thing = getattr(anna, OBJECTS[kind])
        before, replaced = shared_by_anna(world, kind)
        token, linked = shared_by_anna(world, kind)
        assert (replaced.count(), linked.count()) == (0, 1)
        assert mine.shared(kind, thing)
        assert [(share.kind, share.object_id) for share in mine.shares()] == [(kind, thing)]
        assert store.of("boris").shares() == ()
        begun = [
            export.tables(linked, linked.matching_ids(Search(limit=1000)))
            for export in EXPORTS.values()
        ]
        mine.unshare(kind, thing)
        assert [table for exported in begun for table in exported] == []
        assert (linked.count(), linked.studies(), mine.shares()) == (0, (), ())
        with failing("There is no comparison"):
            linked.load(anna.comparison)
        ended(store, before, token)
        mine.unshare(kind, thing)  # nothing to end
        assert not mine.shared(kind, thing)


def test_link_goes_with_what_it_shows(world: World) -> None:
    store, anna, _ = world
    mine = store.of("anna")
    tokens = [shared_by_anna(world, kind)[0] for kind in Shared]
    assert len(mine.shares()) == mine.counts().shares == len(Shared)
    mine.delete(anna.comparison)
    ended(store, tokens[0])
    assert [share.kind for share in mine.shares()] == [Shared.STUDY]
    mine.restore(anna.comparison)
    assert store.through(tokens[0]).count() == 1
    mine.delete_study(anna.study)
    mine.delete_everything()
    assert everything_of(store)["shares"] == []
    ended(store, *tokens)


def test_database_holds_no_token(sqlite_world: World) -> None:
    """Nor does what is in it, or anything else, open what a token opens."""
    store = sqlite_world[0]
    tokens = [shared_by_anna(sqlite_world, kind)[0] for kind in Shared]
    assert len({*tokens}) == len(Shared)
    assert all(len(token) >= 32 for token in tokens)
    held = repr(everything_of(store))
    for token in tokens:
        assert token not in held
        digest = hashlib.sha256(token.encode()).hexdigest()
        assert digest in held
        ended(store, digest, token[:-1], f"{token} ", f"{token}\n", token.swapcase())
    ended(
        store,
        "",
        "a" * 1000,
        "' OR 1=1 --" * 4,
        *(43 * each for each in ("a", "\x00", "\ud800", "é")),
    )
