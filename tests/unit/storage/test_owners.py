"""Nobody reaches what is another's, by whatever method of the store: to read, to list, to export,
to change or to delete.

The tables below name every method; a new one fails the first test until it is there.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from mars_core.counterfactual import Counterfactual
from storage import (
    Choice,
    Preferred,
    RunStore,
    Search,
    Shared,
    write_csv,
    write_parquet,
)
from storage.export.tables import EXPORTS
from storage.schema import Base
from tests.traces import make_trace
from tests.unit.storage.exports import failing, save
from tests.unit.storage.studying import DATA, judge, worked_off

Call = Callable[[RunStore, "Things"], object]
Dump = dict[str, list[dict[str, Any]]]
World = tuple[RunStore, "Things", "Things", "Things"]
NOWHERE = ("", "0" * 32, "\x00", "\ud800", "' OR 1=1 --")
TRACE = make_trace(new_tokens=2)


@dataclass(frozen=True)
class Things:
    """What one owner made; every text of it, and every id, is in ``marks``."""

    marks: tuple[str, ...]
    comparison: str
    run: str
    vote: str
    deleted: str
    deleted_run: str
    done: str
    of_done: str
    study: str
    studied: str
    studied_run: str


def make(store: RunStore, mark: str) -> Things:
    def saved(prompt: str) -> tuple[str, str]:
        traces = [
            make_trace(rule=rule, new_tokens=3, prompt=f"{prompt} of {mark}")
            for rule in ("strict", "mars")
        ]
        made = save(store, *traces)
        store.annotate(made, name=f"name {mark}", tags=[f"tag {mark}"], comment=f"comment {mark}")
        return made, store.load(made).runs[0].id

    comparison, run = saved("prompt")
    vote = store.add_vote(comparison, left_lane=0, right_lane=1, choice=Choice.LEFT)
    store.comment_vote(vote, f"vote {mark}")
    deleted, deleted_run = saved("deleted")
    store.save_counterfactuals(run, [FOLLOWED])
    store.delete(deleted)
    done = store.new_study(f"done {mark}", {"y": f"plan {mark}"}, 1)
    worked_off(store, done)
    of_done = store.results(done)[0].comparison_ids[0]
    study = store.new_study(f"study {mark}", {"x": f"plan {mark}"}, 3)
    worked_off(store, study)
    judge(store, study, 0, 0, Preferred.TIE, judge=f"judge {mark}")
    (result, *_rest) = store.results(study)
    (record,) = store.records(result.run_ids)
    made = (comparison, run, vote, deleted, deleted_run, done, of_done, study)
    studied = (record.comparison_id, record.id)
    return Things((mark, *made, *studied), *made, *studied)


@pytest.fixture(scope="module")
def world(lasting_store: RunStore) -> World:
    """A store of everything, and what Anna, Boris and nobody in particular have in it."""
    anna, boris = (make(lasting_store.of(name), f"{name}s things") for name in ("anna", "boris"))
    return lasting_store, anna, boris, make(lasting_store, "everybodys things")


def calls(name: str, /, *arguments: str, **more: Any) -> Call:
    """A call of a method with these attributes of somebody's things."""
    return lambda store, things: getattr(store, name)(
        *(getattr(things, each) for each in arguments), **more
    )


def of_objects(name: str) -> tuple[Call, ...]:
    return (
        lambda s, t: getattr(s, name)(Shared.COMPARISON, t.comparison),
        lambda s, t: getattr(s, name)(Shared.STUDY, t.study),
    )


def searches(things: Things) -> tuple[Search, ...]:
    """By what each kind of index finds."""
    mark = things.marks[0]
    return Search(), Search(text=mark), Search(rule="mars"), Search(tag=f"tag {mark}")


OF_A_STUDY = (
    "study",
    "study_progress",
    "delete_study",
    "open_tasks",
    "results",
    "reopen_failed",
    "judgements",
)
JUDGED = {"task": 0, "lane": 0, "swapped": True, "judge": "j", "choice": Preferred.RULE}
RESULT = {"task": 1, "lane": 0, "traces": [TRACE], "data": DATA, "order": 0, "worker": "w"}
FOLLOWED = Counterfactual(0, "word", 0.9, 0.5, 1.0, None, 3, 3, -1.0, -1.0)
UNKNOWN: dict[str, tuple[Call, ...]] = {
    **{name: (calls(name, "study"),) for name in OF_A_STUDY},
    **{name: of_objects(name) for name in ("share", "unshare", "shared")},
    "load": tuple(calls("load", each) for each in ("comparison", "of_done", "studied")),
    "records": (lambda s, t: s.records([t.run]), lambda s, t: s.records([t.studied_run])),
    "annotate": (calls("annotate", "comparison", name="stolen"),),
    "delete": (calls("delete", "comparison"),),
    "restore": (calls("restore", "deleted"), calls("restore", "comparison")),
    "save_run": (calls("save_run", "comparison", trace=TRACE, lane=7, order=7),),
    "add_vote": (calls("add_vote", "of_done", left_lane=0, right_lane=1, choice=Choice.TIE),),
    "comment_vote": (calls("comment_vote", "vote", comment="stolen"),),
    "work_on": (calls("work_on", "study", seconds=60.0),),
    "save_result": (calls("save_result", "study", **RESULT),),
    "finish_task": (calls("finish_task", "study", task=1, relatives={}),),
    "task_results": (calls("task_results", "study", task=0),),
    "add_judgement": (calls("add_judgement", "study", **JUDGED),),
    "save_counterfactuals": (calls("save_counterfactuals", "run", tokens=[FOLLOWED]),),
}
LISTS: dict[str, Call] = {
    **{
        name: calls(name)
        for name in ("choices", "count", "votes", "vote_counts", "studies", "shares", "counts")
    },
    "find": lambda s, t: [s.find(each).rows for each in searches(t)],
    "matching_ids": lambda s, t: [s.matching_ids(each) for each in searches(t)],
    "traces": lambda s, t: s.traces([t.run, t.deleted_run, t.studied_run]),
    "accepted_by_step": lambda s, t: s.accepted_by_step([t.run, t.deleted_run, t.studied_run]),
    "counterfactuals": lambda s, t: s.counterfactuals([t.run, t.deleted_run, t.studied_run]),
}
NUMBERS = ("count", "counts", "vote_counts", "matching_ids", "shares")  # or nothing of his
OF_THE_STORE_ITSELF = {
    "close",
    "intact",
    "of",
    "owner",
    "read",
    "read_only",
    "rows",
    "scoped",
    "through",
    "new_comparison",
    "new_study",
}
OF_ALL_THAT_IS_OWNED = {
    "delete_everything",
    "expire",
    "give",
    "purge",
    "remove_unfinished",
}  # tests of their own


def everything_of(store: RunStore) -> Dump:
    """Every row of every table, as the driver gives it."""
    with store.read() as connection:
        rows = {
            name: connection.execute(text(f"SELECT * FROM {name}")).mappings()
            for name in Base.metadata.tables
        }
        return {
            name: sorted((dict(row) for row in records), key=repr) for name, records in rows.items()
        }


@pytest.fixture
def untouched(world: World) -> Iterator[None]:
    """Whatever is tried, nothing has changed."""
    before = everything_of(world[0])
    yield
    assert everything_of(world[0]) == before


def test_every_method_is_tried() -> None:
    public = {name for name in dir(RunStore) if not name.startswith("_")}
    assert public == {*UNKNOWN, *LISTS, *OF_THE_STORE_ITSELF, *OF_ALL_THAT_IS_OWNED}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("whose", ["annas", "everybodys", *NOWHERE])
def test_what_is_anothers_is_unknown(world: World, whose: str) -> None:
    """As is what is nowhere."""
    store, anna, _, everybodys = world
    nowhere = Things((whose,), *10 * [whose])
    things = {"annas": anna, "everybodys": everybodys}.get(whose, nowhere)
    for call in (call for calls in UNKNOWN.values() for call in calls):
        with failing(r"^There is no (comparison|run|vote|study) with the id .*\.$"):
            call(store.of("boris"), things)


@pytest.mark.usefixtures("untouched")
def test_lists_have_everything_of_an_owner_and_nothing_of_another(world: World) -> None:
    store, anna, boris, _ = world
    mine = store.of("boris")
    for name, read in LISTS.items():
        contents = repr(read(mine, anna))
        assert not [mark for mark in anna.marks if mark in contents], name
        contents = repr(read(mine, boris))
        assert name in NUMBERS or [mark for mark in boris.marks if mark in contents], name
    assert (mine.count(), store.of("nobody").count(), store.count()) == (3, 0, 9)
    counts = mine.counts()
    assert (counts.comparisons, counts.runs, counts.votes, counts.studies) == (3, 6, 1, 2)
    assert (counts.shares, counts.deleted) == (0, 1)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("name", EXPORTS)
def test_export_of_anothers_is_refused_before_anything_is_written(
    world: World, tmp_path: Path, name: str
) -> None:
    store, anna, boris, _ = world
    for foreign in (anna.comparison, anna.of_done, anna.studied, anna.deleted, *NOWHERE):
        stream, ids = io.BytesIO(), [boris.comparison, foreign]
        with failing("There is no comparison with the id"):
            write_csv(name, store.of("boris"), stream, ids)
        with failing("There is no comparison with the id"):
            write_parquet(name, store.of("boris"), tmp_path / "one", ids)
        assert stream.getvalue() == b""
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("untouched")
def test_store_is_never_widened(world: World) -> None:
    store, anna, *_ = world
    mine = store.of("boris")
    assert (store.owner, mine.owner, mine.read_only, store.of(None)) == (
        None,
        "boris",
        False,
        store,
    )
    assert mine.of("boris") is mine
    for other in (None, "anna"):
        with pytest.raises(ValueError, match="cannot be changed to another scope"):
            mine.of(other)
    for wrong in ("", "x" * 65):
        with pytest.raises(
            ValueError, match=f"owner has {len(wrong)} characters; it must have 1 to 64"
        ):
            store.of(wrong)
    with pytest.raises(ValueError, match="can transfer only its own objects"):
        mine.give("anna", "boris")
    with pytest.raises(ValueError, match="Only the objects of one owner"):
        store.delete_everything()
    assert store.load(anna.comparison).name == "name annas things"
