"""A comparison of several turns is one comparison: listed, found, exported, shared and deleted with
all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mars_core.types import PromptConfig, Trace
from storage import RunStore, Search, Shared
from tests.traces import make_trace
from tests.unit.storage.exports import csv_of, failing, parsed

FIRST = PromptConfig("Name a river.", system="Be brief.", stop=("\n\n",))
LATER = "And \x00 another, by λ?"


def asked(trace: Trace) -> Trace:
    """The next turn of a run, which goes on from its own answer."""
    prompt = trace.config.prompt.then(trace.text, LATER)
    return replace(trace, config=replace(trace.config, prompt=prompt), text="The Nile.")


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(f"sqlite:///{tmp_path}/runs.db")


def conversation(store: RunStore) -> tuple[str, list[Trace]]:
    """The id of two turns of two lanes, of which the first lane ran twice in each; and their runs
    without the repeats."""
    lanes = [make_trace(rule=rule, prompt=FIRST, new_tokens=9) for rule in ("strict", "mars")]
    traces = [*lanes, *map(asked, lanes)]
    id_ = store.new_comparison(FIRST)
    for order, (at, lane) in enumerate([(0, 0), (1, 1), (0, 0), (2, 0), (3, 1), (2, 0)]):
        store.save_run(id_, traces[at], lane=lane, order=order)
    return id_, traces


def test_what_is_loaded_is_every_turn_with_its_prompt_and_runs(store: RunStore) -> None:
    id_, traces = conversation(store)
    last = store.load(id_)
    (first,) = last.earlier
    assert (first.prompt, last.prompt.text) == (FIRST, LATER.replace("\0", "\ufffd"))
    for turn, expected in ((first, traces[:2]), (last, traces[2:])):
        assert [run.trace.text for run in turn.runs] == [trace.text for trace in expected]
        assert [(run.lane, len(turn.repeats)) for run in turn.runs] == [(0, 1), (1, 1)]
    assert [run.trace.config.prompt.history[0].answer for run in last.runs] == [
        trace.text for trace in traces[:2]
    ]
    assert (last.executed, first.id, first.earlier) == (6, id_, ())
    assert last.at(0) is last.at(2) is last.at(9) is last
    assert last.at(1) == replace(first, later=1)


def test_it_is_one_row_of_the_list_found_by_the_words_of_any_turn(store: RunStore) -> None:
    id_, _ = conversation(store)
    for text in ("", "river", "another, by Λ"):
        (row,) = store.find(Search(text=text)).rows
        assert (row["id"], row["turns"]) == (id_, 2)
    assert (row["prompt"], row["rules"][0], len(row["run_ids"])) == (FIRST.text, "strict", 2)


def test_exports_name_the_turn_and_its_prompt(store: RunStore) -> None:
    conversation(store)
    rows = parsed(csv_of("runs", store))
    assert [(row["lane"], row["turn"]) for row in rows] == [
        *[("0", "0")] * 2,
        *[("0", "1")] * 2,
        ("1", "0"),
        ("1", "1"),
    ]
    assert {row["prompt"] for row in rows if row["turn"] == "0"} == {FIRST.text}
    assert all("another" in row["prompt"] for row in rows if row["turn"] == "1")


def test_a_link_shows_all_turns_and_deleting_takes_them(store: RunStore) -> None:
    id_, _ = conversation(store)
    token = store.share(Shared.COMPARISON, id_)
    assert len(store.through(token).load(id_).turns) == 2
    store.delete(id_)
    assert (store.count(), parsed(csv_of("tokens", store))) == (0, [])
    store.restore(id_)
    assert len(store.load(id_).turns) == 2


def test_another_prompt_without_the_turns_before_is_refused(store: RunStore) -> None:
    id_, (first, _, later, _) = conversation(store)
    for run, prompt in (
        (first, replace(FIRST, text=LATER)),
        (later, replace(later.config.prompt, system="Be long.")),
    ):
        other = replace(run, config=replace(run.config, prompt=prompt))
        with failing("its prompt is not the prompt of its comparison"):
            store.save_run(id_, other, lane=0, order=9)
