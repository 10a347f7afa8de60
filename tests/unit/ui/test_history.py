"""History's handlers without a browser: what each action changes in list, comparison, runs side by
side and address; servers' records."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gradio as gr
import plotly.graph_objects as go
import pytest

from evaluation.records.read import read_records
from mars_core.models import CATALOG
from mars_core.settings import read_lane
from mars_core.types import Exchange, Status
from storage import RunRecord, RunStore, Source
from storage.importing import import_runs
from tests.panels import Element, read_panel
from tests.traces import make_trace
from tests.unit.ui.helpers import HOSTILE, failing, keep, latest, rows_of, services_of
from ui.kit.address import BY_MODEL, Address, address_component
from ui.kit.labels import settings_line
from ui.result.result import reopened
from ui.settings.stored import few, stored_settings
from ui.tabs.history.chart import NUMBERS, run_chart
from ui.tabs.history.list import NO_MATCH, NOTHING, OF_A_MODEL, PAGE, listing
from ui.tabs.history.runs import (
    MOST_RUNS,
    TOO_MANY,
    QuantityRow,
    RunTable,
    acted,
    run_table,
    runs_html,
)
from ui.tabs.history.tab import HistoryTab
from ui.token_view.tiles import lane_check


@pytest.fixture
def history(store: RunStore, page: gr.Blocks) -> HistoryTab:  # noqa: ARG001
    return HistoryTab(services_of(store), address_component())


def value_of(updates: dict[Any, Any], component: Any) -> Any:
    return json.loads(updates[component])


def panel(updates: dict[Any, Any], component: Any) -> Element:
    return read_panel(updates[component])


def columns(updates: dict[Any, Any], history: HistoryTab) -> list[str]:
    """The runs that stand side by side."""
    heads = panel(updates, history.runs).one("thead")
    return [
        each.value["run"]
        for each in heads.all("button")
        if each.attributes["title"].startswith("Remove")
    ]


def empty_text(updates: dict[Any, Any], history: HistoryTab) -> str:
    return panel(updates, history.rows).one(".mars-history-empty").one("span").text


def runs_of(store: RunStore, comparison: str) -> list[str]:
    return [run.id for run in store.load(comparison).runs]


def test_nothing_saved_no_match_and_a_failing_store_have_different_messages(
    store: RunStore, history: HistoryTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert empty_text(history.list_updates(Address()), history) == NOTHING
    keep(store)
    updates = history.list_updates(Address(text="no such words"))
    rows = panel(updates, history.rows)
    empty = rows.one(".mars-history-empty")
    assert (
        empty.one("span").text == NO_MATCH and not empty.hidden and not empty.one("button").hidden
    )
    assert not rows.all(".mars-history-row")
    monkeypatch.setattr(RunStore, "find", failing("The database could not be read."))
    assert empty_text(history.list_updates(Address()), history) == "The database could not be read."


def test_the_latest_comes_first_and_pages_follow(store: RunStore) -> None:
    ids = [keep(store, f"prompt {number}", rules=("strict",)) for number in range(PAGE + 2)]
    first = listing(store)
    assert [row.id for row in first.rows] == ids[
        :1:-1
    ] and first.position == f"Page 1 of 2, {PAGE + 2} comparisons"
    assert [row.id for row in listing(store, Address(list_page=2)).rows] == ids[1::-1]
    assert listing(store, Address(list_page=99)).page == 2


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
        titles = [names[row.id] for row in listing(store, Address(**fields)).rows]
        assert " ".join(titles) == expected, fields


def test_by_model_every_model_has_its_latest_comparisons(store: RunStore) -> None:
    """Made-up runs have one model each; its name filters by it."""
    saved = [keep(store, f"prompt {number_}") for number_ in range(OF_A_MODEL + 2)]
    (target,) = store.choices().targets
    page = listing(store, Address(sort=BY_MODEL))
    assert [row.id for row in page.rows] == saved[::-1][:OF_A_MODEL]
    assert [row.model for row in page.rows] == [target] + [""] * (OF_A_MODEL - 1)
    assert page.rows[0].amount == f"{len(saved)} comparisons"
    assert page.rows[0].models == "demo/draft → demo/target"
    view, _ = acted(store, Address(sort=BY_MODEL), {"action": "model", "target": target})
    assert view == Address(target=target) and len(listing(store, view).rows) == len(saved)
    assert listing(store, Address(sort=BY_MODEL, text="nothing")).message == NO_MATCH


def test_any_two_numbers_of_the_runs_of_the_list_are_drawn(store: RunStore) -> None:
    for temperature in (0.0, 1.0):
        keep(store, HOSTILE, temperature=temperature)
    for x, y in itertools.product(NUMBERS, repeat=2):
        run_chart(store, Address(), {"x": x, "y": y, "by": "rule"})
    plot = run_chart(store, Address(), {"x": "temperature", "y": "tau", "by": "target"})
    assert plot and plot.title == "τ, tokens per step against Temperature, 4 runs"
    (trace,) = plot.figure.data
    assert sorted(trace.x) == [0.0, 0.0, 1.0, 1.0] and trace.name == "demo/target"
    assert "<img" not in str(plot.figure.to_plotly_json())
    go.Figure(plot.figure.to_dict())  # validates
    theta = run_chart(store, Address(), {"x": "theta", "y": "tau"})  # strict has none
    assert theta and theta.title.endswith("2 runs; 2 runs without one of them left out")
    assert run_chart(store, Address(rule="nothing"), {"x": [], "by": {}}) is None


def test_what_can_be_chosen_is_what_there_is_and_not_read_again_with_every_page(
    store: RunStore, history: HistoryTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison_id = keep(store)
    offered = {}
    for select in panel(history.list_updates(Address(tag="gone")), history.search).all("select"):
        offered[select.attributes["name"]] = [
            option.attributes["value"] for option in select.all("option")
        ]
    assert set(offered["rule"]) == {"", *store.choices().rules} and offered["tag"] == ["", "gone"]
    monkeypatch.setattr(RunStore, "choices", lambda _: pytest.fail("choices were read"))
    for data in ({"action": "page", "page": 2}, {"action": "open", "id": comparison_id}):
        assert history.search not in history.act(Address(), data)
    assert history.search not in history.act(Address(comparison=comparison_id), {"action": "close"})


def test_a_list_that_was_not_counted_to_its_end_has_a_next_page(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.runs.search.COUNTED", 1)
    monkeypatch.setattr("ui.tabs.history.list.PAGE", 2)
    for _ in range(5):
        keep(store, "lantern")
    pages = [listing(store, Address(text="lantern", list_page=page)) for page in (1, 2, 3)]
    assert [(len(each.rows), each.page, each.pages > each.page) for each in pages] == [
        (2, 1, True),
        (2, 2, True),
        (1, 3, False),
    ]
    assert pages[0].position == "Page 1, more than 1 comparison found"
    assert listing(store, Address(text="lantern", list_page=9)).page == 1


def test_what_does_not_exist_is_reported_and_leaves_the_address(
    store: RunStore, history: HistoryTab
) -> None:
    updates = history.go(Address(comparison="0" * 32))
    strip = panel(updates, history.detail.view.strip).one(".mars-strip")
    assert (
        strip.attributes["data-state"] == "failed"
        and value_of(updates, history.address)["comparison"] == ""
    )
    run = runs_of(store, keep(store))[0]
    updates = history.go(Address(runs=(run, "f" * 32)))
    message = panel(updates, history.runs).one(".mars-runs-message").text
    assert updates[history.session].runs == (run,) and "no longer there" in message


def test_an_address_opens_everything_it_names(store: RunStore, history: HistoryTab) -> None:
    comparison_id = keep(store, "a lantern")
    runs = runs_of(store, comparison_id)
    updates = history.go(Address(comparison=comparison_id, runs=tuple(runs), text="lan"))
    for shows in (
        updates,
        history.act(Address(), {"action": "open", "id": comparison_id}),
    ):  # a click does so, too
        assert value_of(shows, history.address)["comparison"] == comparison_id
        assert (
            panel(shows, history.rows).one(".mars-history-row").attributes["aria-pressed"] == "true"
        )
        assert value_of(shows, history.detail.view.lanes[1])["state"] == "completed"
        links = panel(shows, history.detail.foot).all("a")
        assert {link.attributes["href"].partition("?")[2] for link in links} == {
            f"comparison={comparison_id}"
        }
    assert columns(updates, history) == runs
    rows = panel(updates, history.runs).one("table").all("tr")[1:]
    same = {
        row.all("th")[0].text: row.attributes["data-same"] for row in rows
    }  # rows that agree say so
    assert same["Seed"] == "true" and same["Rule"] == "false" and same["Settings"] == "false"
    text = panel(updates, history.search).all("input")[0]
    assert (
        text.attributes["value"] == "lan" and updates[history.session].comparison == comparison_id
    )


def test_runs_of_several_comparisons_stand_side_by_side_in_the_order_of_choice(
    store: RunStore, history: HistoryTab
) -> None:
    view = Address()
    chosen = [runs_of(store, keep(store, f"prompt {number}"))[0] for number in range(3)]
    order = (chosen[1], chosen[0], chosen[2])
    for run in order:
        view = history.act(view, {"action": "choose", "run": run})[history.session]
    assert view.runs == order
    for nothing in (
        {"action": "left", "run": "x"},
        {"action": "open", "id": "../x"},
        {"action": "choose", "run": 5},
        {"action": "page", "page": "x"},
        {"action": "undo"},
        {},
    ):
        assert history.act(view, nothing)[history.session] == view, nothing
    updates = history.act(view, {"action": "left", "run": chosen[0]})
    assert columns(updates, history)[0] == chosen[0]
    assert value_of(updates, history.address)["runs"].split(",")[0] == chosen[0]
    updates = history.act(updates[history.session], {"action": "drop", "run": chosen[1]})
    assert len(columns(updates, history)) == 2
    updates = history.act(view, {"action": "choose", "run": chosen[2], "checked": False})
    assert set(columns(updates, history)) == set(chosen[:2])
    updates = history.act(view, {"action": "none"})
    assert columns(updates, history) == [] and panel(updates, history.runs).one("section").hidden


def test_an_eleventh_run_is_refused_in_one_sentence(store: RunStore, history: HistoryTab) -> None:
    runs = [run for number in range(6) for run in runs_of(store, keep(store, f"prompt {number}"))]
    view = Address(runs=tuple(runs[:MOST_RUNS]))
    updates = history.act(view, {"action": "choose", "run": runs[MOST_RUNS]})
    message = panel(updates, history.runs).one(".mars-runs-message")
    assert message.text == TOO_MANY and not message.hidden
    assert len(columns(updates, history)) == MOST_RUNS == len(updates[history.session].runs)
    again = history.act(view, {"action": "choose", "run": runs[MOST_RUNS]})
    assert (
        again[history.rows] != updates[history.rows]
    )  # a value that stays would leave the box checked
    updates = history.go(Address(runs=tuple(runs)))
    message = panel(updates, history.runs).one(".mars-runs-message")
    assert len(columns(updates, history)) == MOST_RUNS and message.text.startswith(
        "The address names 12 runs;"
    )


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


def test_deleting_is_undone_and_the_next_action_takes_the_line_away(
    store: RunStore, history: HistoryTab
) -> None:
    comparison_id = keep(store, "a lantern")
    view = Address(comparison=comparison_id, runs=tuple(runs_of(store, comparison_id)))
    updates = history.act(view, {"action": "delete"})
    rows = panel(updates, history.rows)
    notice = rows.one(".mars-history-notice")
    assert (
        not rows.all(".mars-history-row")
        and notice.one("span").text == "Deleted “a lantern”."
        and not notice.hidden
    )
    assert notice.one("button").value == {"action": "undo", "id": comparison_id}
    view = updates[history.session]
    assert view.comparison == "" and view.runs == () and store.count() == 0
    assert panel(history.list_updates(view), history.rows).one(".mars-history-notice").hidden
    back = history.act(view, {"action": "undo", "id": comparison_id})
    assert (
        len(panel(back, history.rows).all(".mars-history-row")) == 1
        and store.load(comparison_id).runs
    )


def test_the_form_requests_the_same_runs(store: RunStore) -> None:
    comparison_id = keep(store, "a lantern", rules=("none", "mars"), seed=7)
    form = stored_settings(store.load(comparison_id), ())
    config = store.load(comparison_id).runs[1].trace.config
    assert form.rules == (read_lane("none"), read_lane("mars(theta=0.9)"))
    assert (form.prompt, form.k, form.seed) == ("a lantern", config.drafter.k, 7)
    assert (form.target, form.draft) == ("demo/target@bundled", "demo/draft@bundled")
    # but not of a later turn of a conversation
    stored = store.load(comparison_id)
    prompt = replace(config.prompt, history=(Exchange("a lantern", "It is lit."),))
    later = replace(
        stored.runs[1], trace=replace(stored.runs[1].trace, config=replace(config, prompt=prompt))
    )
    with pytest.raises(ValueError, match="turn 2 of a conversation"):
        stored_settings(replace(stored, runs=(later,)), ())


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


def row(table: RunTable, name: str) -> QuantityRow:
    return next(row for row in table.rows if row.name == name)


def test_texts_come_first_and_the_machine_last_folded_where_all_runs_agree() -> None:
    one, other = record(1), record(2)
    newer = replace(other.config, environment={**other.config.environment, "torch": "99"})
    assert {"device", "torch"} <= one.config.environment.keys()
    for second, folded in ((other, True), (replace(other, config=newer), False)):
        html = read_panel(runs_html(run_table([one, second])))
        groups = [each.text for each in html.all(".mars-runs-group")]
        assert [groups[0], groups[-1]] == ["Output", "Machine and versions"]
        assert html.all("tbody")[-1].hidden is folded


LINE: dict[str, Any] = json.loads("""{
  "format": "mars-vllm-1", "id": "a", "model": "target", "drafter": "eagle3:head",
  "vllm": "0.32.0", "plugin": "0.1.0", "rule": "mars", "parameters": {"theta": 0.9},
  "temperature": 0.0, "seed": null, "prompt_ids": [1], "finished": "2026-11-23T08:00:00+00:00",
  "steps": [{
    "kept": 1, "relaxed": [true, false], "z1": [12.0, 9.0], "z2": [11.5, null],
    "id1": [8, 9], "id2": [6, 7], "drafted": [6, 7], "emitted": [6, 9]
  }]
}""")
ANSWER: dict[str, Any] = json.loads("""{
  "model": "m", "choices": [{"text": "Once upon", "finish_reason": "length"}],
  "usage": {"completion_tokens": 12},
  "metrics": {"speculative_decoding": {
    "num_spec_steps": 3, "num_draft_tokens": 15, "num_accepted_draft_tokens": 10,
    "num_spec_tokens": 5, "acceptance_histogram": [1, 0, 0, 0, 0, 2]
  }}
}""")
METRICS = "sglang:spec_accept_length 2.5\n"


def opened(store: RunStore, folder: Path, content: Any) -> Any:
    path = folder / "record"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    import_runs(store, read_records(path))
    return latest(store)


def test_a_line_of_the_plugin_shows_ids_margins_and_relaxed_tokens(
    store: RunStore, tmp_path: Path
) -> None:
    stored = opened(store, tmp_path, LINE)
    result = reopened(stored)
    lane = json.loads(result.lanes[0].json())
    assert [row[0] for row in lane["rows"]] == ["#6 ", "#9 "] and lane["times"] == []
    assert result.details is not None and result.details.plots["ratio"] is not None
    tiles = {name: value for name, value, *_ in lane["tiles"]}
    assert tiles == {
        "Speed": "–",
        "First token": "–",
        "Latency": "–",
        "Shift": "–",
    }
    assert (
        settings_line(stored.runs[0].trace.config)
        == "temperature 0 · seed – · K 2 · greedy EAGLE-3 drafts · head → target"
    )
    assert "Not known: prompt, text, times." in stored.comment


def test_compare_does_not_repeat_it_and_no_check_is_claimed(
    store: RunStore, tmp_path: Path
) -> None:
    stored = opened(store, tmp_path, LINE | {"rule": "strict", "parameters": {}})
    with pytest.raises(ValueError, match="This is a run of a server"):
        stored_settings(stored, [])
    trace = stored.runs[0].trace
    assert lane_check(trace.config, trace.summary.tv_max, trace.summary.new_tokens).state == ""
