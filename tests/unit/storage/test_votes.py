"""Blind votes: each says which runs stood on which side, one a comparison, and all are in the
exports."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

from storage import Choice, RunStore, Source, write_parquet
from storage.export.columns import SCHEMA_VERSION
from tests.traces import make_trace
from tests.unit.storage.exports import csv_of, parsed, read_parquet, save

SIDES = ("left", "right", "winner")


def pair(store: RunStore, prompt: str = "Who?") -> tuple[str, str, str]:
    """A comparison of none (lane 0) and mars (lane 1, run again), and the ids of the last runs."""
    plain, mars = (make_trace(rule=rule, new_tokens=5, prompt=prompt) for rule in ("none", "mars"))
    comparison_id = save(store, plain, mars)
    left = store.load(comparison_id).runs[0].id
    return comparison_id, left, store.save_run(comparison_id, mars, lane=1, order=2)


def test_vote_is_stored_and_exported(store: RunStore, tmp_path: Path) -> None:
    for choice, prompt in zip(Choice, ("=1+1", "␛", "c", "d"), strict=True):
        comparison_id, plain, mars = pair(store, prompt)
        vote_id = store.add_vote(comparison_id, left_lane=1, right_lane=0, choice=choice)
        store.comment_vote(vote_id, "@x")
        vote, *_ = store.votes()
        rules = ("mars(theta=0.9)", "none")
        known = (vote_id, comparison_id, vote.created_at, choice, *rules, mars, plain, "@x", prompt)
        assert astuple(vote) == known
        assert vote.winner_run == {Choice.LEFT: mars, Choice.RIGHT: plain}.get(choice)
    plain_run = make_trace(rule="none", new_tokens=40)
    for text in (plain_run.text, "another text"):  # without a vote
        save(store, plain_run, replace(plain_run, text=text), source=Source.VOTE)
    assert [each.count for each in store.vote_counts() if each.choice is None] == [1]
    write_parquet("votes", store, tmp_path / "votes.parquet")
    names = {"vote_id": "id"} | {f"{side}_run_id": f"{side}_run" for side in SIDES}
    for row, vote in zip(
        read_parquet(tmp_path / "votes.parquet"), store.votes()[::-1], strict=True
    ):
        assert row.pop("schema_version") == SCHEMA_VERSION
        assert row == {name: getattr(vote, names.get(name, name)) for name in row}
    (line,) = parsed(csv_of("votes", store, [comparison_id]))
    assert (line["comparison_id"], line["comment"]) == (comparison_id, "'@x")
