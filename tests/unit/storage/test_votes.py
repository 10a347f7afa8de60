"""Blind votes: each says which runs stood on which side, one a comparison, and all are in the
exports."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

from mars_core.types import Status
from storage import Choice, RunStore, Source, write_parquet
from storage.export.columns import SCHEMA_VERSION
from tests.traces import make_trace
from tests.unit.storage.exports import csv_of, failing, parsed, read_parquet, save

SIDES = ("left", "right", "winner")


def pair(store: RunStore, prompt: str = "Who?") -> tuple[str, str, str]:
    """A comparison of none (lane 0) and mars (lane 1), and the ids of its runs."""
    rules = ("none", "mars")
    comparison_id = save(
        store, *(make_trace(rule=rule, new_tokens=5, prompt=prompt) for rule in rules)
    )
    left, right = store.load(comparison_id).runs
    return comparison_id, left.id, right.id


def test_vote_is_stored_and_exported(store: RunStore, tmp_path: Path) -> None:
    for choice, prompt in zip(Choice, ("=1+1", "␛", "c", "d"), strict=True):
        comparison_id, plain, mars = pair(store, prompt)
        vote_id = store.add_vote(
            comparison_id, left_lane=1, right_lane=0, choice=choice, comment="@x"
        )
        vote, *_ = store.votes()
        rules = ("mars(theta=0.9)", "none")
        known = (vote_id, comparison_id, vote.created_at, choice, *rules, mars, plain, "@x", prompt)
        assert astuple(vote) == known
        assert vote.winner_run == {Choice.LEFT: mars, Choice.RIGHT: plain}.get(choice)
    write_parquet("votes", store, tmp_path / "votes.parquet")
    names = {"vote_id": "id"} | {f"{side}_run_id": f"{side}_run" for side in SIDES}
    for row, vote in zip(
        read_parquet(tmp_path / "votes.parquet"), store.votes()[::-1], strict=True
    ):
        assert row.pop("schema_version") == SCHEMA_VERSION
        assert row == {name: getattr(vote, names.get(name, name)) for name in row}
    (line,) = parsed(csv_of("votes", store, [comparison_id]))
    assert (line["comparison_id"], line["comment"]) == (comparison_id, "'@x")


def test_votes_are_latest_first_and_comments_can_follow(store: RunStore) -> None:
    ids = [
        store.add_vote(pair(store)[0], left_lane=0, right_lane=1, choice=choice)
        for choice in (Choice.TIE, Choice.RIGHT)
    ]
    assert [vote.id for vote in store.votes(limit=1)] == ids[1:]
    store.comment_vote(ids[0], "␛ later")
    assert [(vote.id, vote.comment) for vote in store.votes()] == [
        (ids[1], ""),
        (ids[0], "␛ later"),
    ]
    with failing("A comment may have 10,000 characters at most"):
        store.comment_vote(ids[0], "x" * 10_001)
    with failing("There is no vote with the id"):
        store.comment_vote("0" * 32, "x")
    assert store.votes()[1].comment == "␛ later"


def test_vote_is_one_and_between_the_last_runs_of_two_lanes(store: RunStore) -> None:
    comparison_id, _, mars = pair(store)
    again = store.save_run(comparison_id, make_trace(new_tokens=3, prompt="Who?"), lane=0, order=7)
    for left, right, message in (
        (0, 0, "one lane"),
        (0, 2, "lane 3 of the comparison has no run"),
        (-1, 0, "no run"),
    ):
        with failing(message):
            store.add_vote(comparison_id, left_lane=left, right_lane=right, choice=Choice.TIE)
    assert store.votes() == ()
    store.add_vote(comparison_id, left_lane=0, right_lane=1, choice=Choice.LEFT)
    with failing("this comparison has one already"):
        store.add_vote(comparison_id, left_lane=1, right_lane=0, choice=Choice.RIGHT)
    assert [(vote.choice, vote.left_run, vote.right_run) for vote in store.votes()] == [
        (Choice.LEFT, again, mars)
    ]


def test_votes_are_counted_by_rules_and_choice(store: RunStore) -> None:
    for choice in (Choice.LEFT, Choice.LEFT, Choice.TIE):
        gone = pair(store)[0]
        store.add_vote(gone, left_lane=0, right_lane=1, choice=choice)
    store.add_vote(pair(store)[0], left_lane=1, right_lane=0, choice=Choice.LEFT)
    mars = "mars(theta=0.9)"
    counted = [
        ("none", mars, Choice.LEFT, 2),
        ("none", mars, Choice.TIE, 1),
        (mars, "none", Choice.LEFT, 1),
    ]
    assert sorted(map(astuple, store.vote_counts())) == sorted(counted)
    store.delete(gone)
    assert sorted(map(astuple, store.vote_counts())) == sorted([counted[0], counted[2]])


def test_rounds_without_a_vote_are_counted(store: RunStore) -> None:
    same = make_trace(new_tokens=3)
    for traces, source in (
        ((same, same), Source.VOTE),  # the one that counts
        (
            (
                same,
                make_trace(rule="mars", theta=0.3, new_tokens=9, prompt=same.config.prompt.text),
            ),
            Source.VOTE,
        ),
        ((same, replace(same, status=Status.CANCELLED)), Source.VOTE),
        ((same, same, same), Source.VOTE),
        ((same,), Source.VOTE),
        ((same, same), Source.COMPARE),
    ):
        save(store, *traces, source=source)
    assert list(map(astuple, store.vote_counts())) == [("strict", "strict", None, 1)]
