"""The payload of a lane: every token once, in order, with its own characters, in a form that no text can break."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mars_core.types import Outcome, Status
from tests.traces import make_trace, make_tree_trace
from ui.format import displayable, number, visible
from ui.tiles import Counts, counts_of, stat_tiles
from ui.token_view import FIELDS, OUTCOMES, ended_view, to_json, token_rows

HOSTILE = ("<script>", "${1}", "{{7*7}}", "\ud800", "\u202eabc", "`", "\x1b[31m", "</script>", "'\"")


def test_the_rows_spell_the_text() -> None:
    trace = make_trace(new_tokens=90)
    rows = ended_view(trace, "run").rows
    assert "".join(row[0] for row in rows) == displayable(trace.text)
    assert [OUTCOMES[row[1]] for row in rows] == [token.outcome for token in trace.tokens]


def test_a_refused_draft_is_the_struck_alternative_of_the_next_token() -> None:
    trace = make_trace(new_tokens=90)
    tokens = [token for step in trace.steps for token in step.tokens]
    rows = token_rows(tokens, trace.text, greedy=False)
    recovered = [row for row in rows if OUTCOMES[row[1]] is Outcome.RECOVERED]
    assert recovered and all(len(row[5]) == 1 for row in recovered)
    assert all(row[5] == [] for row in rows if OUTCOMES[row[1]] is not Outcome.RECOVERED)


def test_all_refused_siblings_of_a_tree_are_listed_in_order() -> None:
    trace = make_tree_trace(new_tokens=60)
    tokens = [token for step in trace.steps for token in step.tokens]
    rows = token_rows(tokens, trace.text, greedy=True)
    struck = [piece for row in rows for piece, _, _ in row[5]]
    refused = [visible(token.piece) for token in tokens if token.outcome is Outcome.REJECTED]
    assert struck == refused and any(len(row[5]) > 1 for row in rows)
    assert len(rows) == len(trace.tokens)


def test_a_token_without_characters_keeps_its_place() -> None:
    trace = make_trace(new_tokens=12)
    tokens = list(trace.tokens)
    tokens[3] = replace(tokens[3], piece="\ufffd", end=tokens[3].start)
    rows = token_rows(tokens, trace.text, greedy=False)
    assert len(rows) == 12 and rows[3][0] == "" and rows[3][2] == "\ufffd"


def test_every_row_has_every_number() -> None:
    rows = ended_view(make_trace(), "run").rows
    assert all(len(row[3]) == len(FIELDS) for row in rows)
    assert rows[7][3][[name for name, _ in FIELDS].index("position")] == "7"


def test_kl_and_the_targets_opinion_are_among_the_numbers() -> None:
    trace = make_trace(rule="mars", new_tokens=60)
    names = [name for name, _ in FIELDS]
    for row, token in zip(ended_view(trace, "run").rows, trace.tokens, strict=True):
        assert row[3][names.index("KL")] == number(token.kl) and row[3][names.index("ln p")] == number(token.logprob)
        assert row[3][names.index("node")] == str(token.node)
    assert names[0] == "r" and names[4] == "p"  # which lane.js speaks


def test_a_lossless_lane_carries_its_self_check_and_others_none() -> None:
    assert json.loads(ended_view(make_trace(), "run").json())["check"] == [
        "ok", "Self-check: Strict shifted nothing (largest TV 0)."
    ]  # fmt: skip
    assert json.loads(ended_view(make_trace(rule="mars"), "run").json())["check"] == ["", ""]


def test_hostile_text_is_ascii_json_without_markup() -> None:
    trace = make_trace(words=HOSTILE, rule="mars", status=Status.FAILED, error="<img src=x onerror=1> \ud800")
    value = ended_view(trace, "run").json()
    assert value.isascii() and "<" not in value
    assert json.loads(value)["note"] == displayable(trace.error)
    assert json.loads(to_json("\ud800<")) == "\ud800<"


def test_live_numbers_end_as_the_summary_says() -> None:
    trace = make_trace(rule="mars", new_tokens=70)
    counts = Counts()
    for step in trace.steps:
        counts = counts.after(step)
    ended = counts_of(trace)
    assert replace(counts, tv_sum=0.0) == replace(ended, tv_sum=0.0)
    assert counts.tv_sum == pytest.approx(ended.tv_sum)
    assert stat_tiles(counts) == ended_view(trace, "run").tiles


def test_nothing_is_claimed_before_the_first_step() -> None:
    assert all(value == "–" for _, value, _, _ in stat_tiles(Counts()))
