"""History's handlers without a browser: what each action changes in list, comparison, runs side by
side and address; servers' records."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import gradio as gr
import pytest

from mars_core.models import CATALOG
from mars_core.types import Status
from storage import RunRecord, RunStore, Shared, Source
from storage.runs import search
from tests.panels import Element, read_panel
from tests.traces import make_trace
from tests.unit.storage.damage import damage_column
from tests.unit.ui.helpers import keep, rows_of, services_of
from ui.kit.address import Address, address_component
from ui.settings.values import few, stored_settings
from ui.tabs.history.list import PAGE, listing
from ui.tabs.history.runs import MOST_RUNS, TOO_MANY, acted, runs_html
from ui.tabs.history.tab import HistoryTab


@pytest.fixture
def history(store: RunStore, page: gr.Blocks) -> HistoryTab:  # noqa: ARG001
    return HistoryTab(services_of(store), address_component())


def panel(updates: dict[Any, Any], component: Any) -> Element:
    return read_panel(updates[component])


def test_the_latest_comes_first_and_pages_follow(store: RunStore) -> None:
    ids = [keep(store, f"prompt {number}", rules=("strict",)) for number in range(PAGE + 2)]
    first = listing(store)
    assert [row.stored["id"] for row in first.rows] == ids[
        :1:-1
    ] and first.position == f"Page 1 of 2, {PAGE + 2} comparisons"
    assert [row.stored["id"] for row in listing(store, Address(list_page=2)).rows] == ids[1::-1]
    assert listing(store, Address(list_page=99)).address.list_page == 2
    assert store.path
    damage_column(store.path, "comparisons", "prompt")
    assert listing(store, Address(list_page=2)).position == (
        f"Page 2 of 2, {PAGE + 2} comparisons; 1 of this page cannot be read"
    )


def test_a_page_follows_one_with_a_damaged_comparison(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there are more than are counted."""
    monkeypatch.setattr(search, "COUNTED", PAGE - 1)
    for number in range(PAGE + 1):
        keep(store, f"prompt {number}", rules=("strict",))
    assert store.path
    damage_column(store.path, "comparisons", "prompt", last=True)
    page = listing(store, Address(text="prompt"))
    assert (len(page.rows), page.found.unreadable, page.pages) == (PAGE - 1, 1, 2)


def test_every_field_of_the_search_limits_the_list(store: RunStore) -> None:
    one = keep(store, "a lantern", rules=("strict",))
    two = keep(store, "a ladder", rules=("strict", "mars"), status=Status.FAILED)
    store.annotate(two, tags=["paper"])
    three = keep(store, "studying", source=Source.STUDY)
    names = {one: "one", two: "two", three: "three"}
    for fields, expected in rows_of("""
{} -> two one
{"source": "all"} -> three two one
{"source": "study"} -> three
{"text": "LANTERN"} -> one
{"rule": "mars"} -> two
{"status": "failed"} -> two
{"tag": "paper"} -> two
{"target": "nobody"} ->
{"since": "2001-01-01"} -> two one
{"until": "2001-01-01"} ->
"""):
        titles = [names[row.stored["id"]] for row in listing(store, Address(**fields)).rows]
        assert " ".join(titles) == expected, fields


def test_name_tags_and_comment_are_stored(store: RunStore, history: HistoryTab) -> None:
    comparison_id = keep(store)
    view, sent = Address(comparison=comparison_id), {"tags": "b, a,, b", "comment": "fine"}
    updates = history.act(view, {"action": "save", "name": " mine "} | sent)
    stored = store.load(comparison_id)
    assert (stored.name, stored.tags, stored.comment) == ("mine", ("a", "b"), "fine")
    row = panel(updates, history.rows)
    assert row.one(".mars-history-name").text == "mine" and [
        tag.text for tag in row.all(".mars-tag")
    ] == ["a", "b"]
    assert panel(updates, history.detail.foot).one(".mars-page").text == "Saved."
    foot = panel(history.act(view, {"action": "save", "name": "x" * 201}), history.detail.foot)
    assert "200 characters" in foot.one(".mars-page").text
    assert foot.all("input")[0].attributes["value"] == "x" * 201
    assert store.load(comparison_id).name == "mine"


def test_of_many_runs_the_chosen_ones_are_opened(store: RunStore, history: HistoryTab) -> None:
    """A study compares more runs than the page has lanes."""
    comparison = keep(store, rules=("none", *("strict", "mars") * 3))
    runs = [run.id for run in store.load(comparison).runs]
    first = history.go(Address(comparison=comparison))
    assert "4 of 7 runs are visible" in first[history.detail.head]
    titles = [json.loads(first[lane])["title"] for lane in history.detail.view.lanes]
    assert titles == ["Target alone", "Strict", "MARS θ = 0.9", "Strict"]
    chosen = history.go(Address(comparison=comparison, runs=(runs[6], runs[1])))
    titles = [json.loads(chosen[lane])["title"] for lane in history.detail.view.lanes[:2]]
    assert titles == ["Strict", "MARS θ = 0.9"]
    assert "2 of 7 runs are visible" in chosen[history.detail.head]
    assert len(stored_settings(few(store.load(comparison), ()), CATALOG).rules) == 4


def test_runs_of_another_visitor_stand_side_by_side_through_their_link_alone(
    store: RunStore,
    page: gr.Blocks,  # noqa: ARG001
) -> None:
    owner = store.of("anna")
    comparison = keep(owner)
    runs = tuple(run.id for run in owner.load(comparison).runs)
    token = owner.share(Shared.COMPARISON, comparison)
    other = HistoryTab(services_of(store.of("ben")), address_component())
    for share, read in ((token, runs), ("x" * 43, ()), ("", ())):
        view, _ = other.compared(Address(runs=runs, share=share))
        assert view.runs == read


def test_an_action_changes_the_runs_side_by_side_and_no_more_than_fit() -> None:
    one, two, other, *more = (f"{number:032x}" for number in range(MOST_RUNS + 1))
    for action, run, expected in (
        ("left", two, (two, one)),
        ("left", other, (one, two)),
        ("drop", one, (two,)),
        ("choose", other, (one, two, other)),
        ("none", "", ()),
    ):
        sent = {"action": action, "runs": run}
        assert acted(Address(runs=(one, two)), sent) == (Address(runs=expected), "")
    full = Address(runs=(one, two, *more))
    assert acted(full, {"action": "choose", "runs": other}) == (full, TOO_MANY)


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def record(number_: int, **settings: object) -> RunRecord:
    trace = make_trace(new_tokens=12, **settings)  # type: ignore[arg-type]
    return RunRecord(
        f"{number_:032x}",
        f"{99:032x}",
        0,
        NOW + timedelta(minutes=number_),
        trace.status,
        trace.stop_reason,
        trace.error,
        "",
        trace.config,
        trace.summary,
        trace.text,
    )


def test_texts_come_first_and_the_machine_last_folded_where_all_runs_agree() -> None:
    one, other = record(1), record(2)
    newer = replace(other.config, environment={**other.config.environment, "torch": "99"})
    assert {"device", "torch"} <= one.config.environment.keys()
    for second, folded in ((other, True), (replace(other, config=newer), False)):
        html = read_panel(runs_html([one, second]))
        groups = [each.text for each in html.all(".mars-runs-group")]
        assert [groups[0], groups[-1]] == ["Output", "Machine and versions"]
        assert html.all("tbody")[-1].hidden is folded
