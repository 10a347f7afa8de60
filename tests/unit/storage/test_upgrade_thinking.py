"""Databases of schema 0005 are carried over: thinking and exact passes are not known there, and plain decoding had the rule strict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from alembic import command

from mars_core.types import PassShape
from storage import RunStore, Search
from tests.traces import make_trace, same
from tests.unit.storage.old_schema import dump, make_old, migrations, raw

TRACES = [make_trace(rule=rule, new_tokens=9) for rule in ("none", "strict", "mars")]


def plan(plain: str) -> dict[str, Any]:
    """What of a study's plan is carried over: its lanes, of which the first drafts nothing."""
    lanes = [(plain, "none"), ("strict", "model"), ("mars", "model")]
    return {"name": "a\x00", "lanes": [{"rule": {"name": rule}, "drafter": {"kind": kind}} for rule, kind in lanes]}


def old(url: str) -> tuple[list[str], str]:
    """A database of 0005 with three comparisons and a study; their ids."""
    ids = make_old(url, TRACES, "0005")
    with RunStore(url) as store:
        study = store.new_study("", plan("none"), 1)
    with raw(url) as connection:
        command.downgrade(migrations(connection), "0005")
    return ids, study


def test_plain_decoding_of_0005_has_a_rule_of_its_own(url: str) -> None:
    ids, study = old(url)
    with RunStore(url) as store:
        for comparison_id, trace in zip(ids, TRACES, strict=True):
            assert same(store.load(comparison_id).runs[0].trace, trace)
        assert store.study(study).plan == plan("none")
        assert store.find(Search(rule="none")).frame["id"].tolist() == ids[:1]
        assert store.find(Search(rule="strict")).frame["id"].tolist() == ids[1:2]


def test_down_and_up_again_keeps_what_0005_keeps(url: str) -> None:
    ids, study = old(url)
    before = dump(url)
    assert sorted(row["rule"] for row in before["runs"]) == ["mars", "strict", "strict"]
    config = TRACES[1].config
    known = replace(config, prompt=replace(config.prompt, thinking=True), passes=PassShape(16, 512))
    with RunStore(url) as store:
        kept = store.new_comparison(config.prompt)
        store.save_run(kept, replace(TRACES[1], config=known), lane=0, order=0)
        later = store.new_study("", plan("none") | {"thinking": True}, 1)
    with raw(url) as connection:
        command.downgrade(migrations(connection), "0005")
    after = dump(url)
    assert [row for row in after["runs"] if row["comparison_id"] in ids] == before["runs"]
    assert [row for row in after["studies"] if row["id"] == study] == before["studies"]
    with RunStore(url) as store:
        assert same(store.load(kept).runs[0].trace, TRACES[1])
        assert store.study(later).plan == plan("none")
