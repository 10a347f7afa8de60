"""What an open page keeps of its comparison: ids, never traces; and the runs that its events read again."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from storage import RunStore
from tests.traces import make_trace, same
from tests.unit.ui.places import FORM, failing
from ui.jobs.services import Services
from ui.kit.address import address_component
from ui.kit.components import message_strip
from ui.result import stored_runs
from ui.result.result import ended_result
from ui.result.stored_runs import ShownRuns, StoredRuns
from ui.result.tree_panel import GONE
from ui.result.view import ResultView
from ui.settings.form import MOST_LANES
from ui.tabs.compare.frames import Frame
from ui.tabs.compare.handlers import Wish, run_comparison, run_one_more
from ui.tabs.compare.tab import CompareTab
from ui.tabs.history.tab import History
from ui.token_view.view import LaneView

MOST_BYTES = 2_000  # of all that is kept of a comparison of four runs


def visitors(store: RunStore) -> StoredRuns:
    """A request is the name of an owner."""
    stub: Any = SimpleNamespace(seen_by=lambda owner: SimpleNamespace(store=store.of(owner)))
    return StoredRuns(stub)


def save(store: RunStore, seeds: range) -> tuple[str, list[str]]:
    """A comparison of a run a seed; the ids of its runs."""
    traces = [make_trace(seed=seed, new_tokens=12) for seed in seeds]
    comparison = store.new_comparison(traces[0].config.prompt)
    return comparison, [store.save_run(comparison, trace, lane=lane, order=lane) for lane, trace in enumerate(traces)]


def assert_small(updates: dict[Any, Any]) -> None:
    """The values of states; gradio keeps those of no other component."""
    states = {component: value for component, value in updates.items() if isinstance(component, gr.State)}
    assert states
    data = pickle.dumps(list(states.values()))
    assert b"Trace" not in data and len(data) < MOST_BYTES
    assert b"Trace" in pickle.dumps([make_trace(new_tokens=1)])


def drawn(updates: dict[Any, Any], view: ResultView) -> bool:
    return view.tree.plot in updates


@pytest.mark.usefixtures("page")
def test_compare_keeps_ids_and_draws_trees_of_what_the_store_has(services: Services) -> None:
    """Through the handlers: a comparison, one continued from it, their frames as updates, a step of a tree."""
    tab = CompareTab(services)
    view, tree = tab.view, tab.view.tree
    frames: list[Frame] = list(run_comparison(services, FORM, "visitor"))
    shown = next(frame.shown for frame in reversed(frames) if frame.shown)
    assert b"Trace" not in pickle.dumps(shown)
    frames += run_one_more(services, shown, Wish(0, 5, 7), "visitor")
    details = frames[-1].details
    ids = {run.lane: run.id for run in services.store.load(shown.comparison).runs}
    assert details.ids == ids and len(ids) == 3
    updates = view.show(details)
    assert_small(updates)
    assert updates[tree.shown] == ShownRuns(ids)
    step = tree._mover(1)(updates[tree.shown], 1, 0, request=None)
    assert drawn(step, view) and step[tree.step]["value"] == 1
    assert_small(step | {tree.shown: updates[tree.shown]})


@pytest.mark.usefixtures("page")
def test_history_keeps_ids(services: Services) -> None:
    store = services.store
    history = History(services, address_component())
    comparison, ids = save(store, range(4))
    updates = history.detail.opened(store.load(comparison), share="token")
    assert_small(updates)
    assert updates[history.detail.view.tree.shown] == ShownRuns(dict(enumerate(ids)), "token")


@pytest.mark.usefixtures("page")
def test_run_that_was_not_saved_is_shown_all_the_same(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunStore, "save_run", failing("The disk is full."))
    frame = list(run_comparison(services, FORM, "visitor"))[-1]
    assert frame.strip is not None and "Not saved: The disk is full." in frame.strip.side
    details = frame.details
    assert details is not None and not any(details.ids.values())
    view = ResultView("x", message_strip(""), (LaneView(""),) * MOST_LANES, StoredRuns(services))
    tree = view.tree
    updates = view.show(details)
    assert_small(updates)
    assert drawn(tree._mover(1)(updates[tree.shown], 0, 0, request=None), view)
    for seed in range(stored_runs.MOST):
        view.show(ended_result({0: make_trace(seed=seed)}, "other", [""]).details)
    later = tree._mover(1)(updates[tree.shown], 0, 0, request=None)
    assert later == {tree.empty: GONE}


def test_runs_are_read_with_the_rights_of_the_visitor(services: Services) -> None:
    anna = services.store.of("anna")
    _, (run_id,) = save(anna, range(1))
    runs, shown = visitors(services.store), ShownRuns({2: run_id})
    assert runs.read("bob", shown, 2) is None
    found = runs.read("anna", shown, 2)
    assert found is not None and same(found, make_trace(seed=0, new_tokens=12))
    assert runs.read("anna", shown._replace(share="no such link"), 2) is found, "the one in memory"
    assert visitors(services.store).read("anna", shown._replace(share="no such link"), 2) is None
