"""The payload of a lane, in a form that no text can break; in other programs; the stored example;
what another θ would do."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from display.format import displayable, number, visible
from mars_core.types import Outcome, Trace
from tests.traces import make_trace
from tests.unit.ui.helpers import one_loop
from ui.result import example
from ui.token_view.standalone import read_trace, token_view
from ui.token_view.tiles import NOTHING, counted, stat_tiles
from ui.token_view.view import (
    FIELDS,
    OUTCOMES,
    PREFIX,
    LaneView,
    TokenRow,
    ended_view,
    token_rows,
)


def test_the_rows_spell_the_text() -> None:
    """A refused draft is the struck alternative of the next token."""
    trace = make_trace(new_tokens=90)
    rows = ended_view(trace, "run").rows
    assert "".join(row[0] for row in rows) == displayable(trace.text)
    assert [OUTCOMES[row[1]] for row in rows] == [token.outcome for token in trace.tokens]
    assert all(len(row[5]) == (OUTCOMES[row[1]] is Outcome.RECOVERED) for row in rows) and any(
        row[5] for row in rows
    )
    # what the target drew is no alternative of a sampled draft; a token without characters keeps
    # its position
    tokens = [token for step in trace.steps for token in step.tokens]
    assert not any(row[4] for row in token_rows(tokens, trace.text, 2, trace.config.rule))
    tokens = [*trace.tokens]
    tokens[3] = replace(tokens[3], piece="\ufffd", end=tokens[3].start)
    rows = token_rows(tokens, trace.text, 0, trace.config.rule)
    assert len(rows) == 90 and rows[3][0] == "" and rows[3][2] == "\ufffd"


def numbers_of(row: TokenRow) -> dict[str, float]:
    return dict(zip((name for name, _ in FIELDS), map(float, row[3].split(",")), strict=True))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_numbers_of_a_row_are_those_of_its_token(temperature: float) -> None:
    """At temperature 0 no probability of the token, and of the drafts that it replaces, contradicts
    its alternatives."""
    trace = make_trace(rule="mars", new_tokens=60, temperature=temperature)
    attributes = {
        "ln p": "logprob",
        "p, T = 0": "p",
        "z₁": "z1",
        "z₂": "z2",
        "relaxed": "forgiveness",
        "depth": "draft_position",
        "value": "parameter",
    }
    for row, token in zip(ended_view(trace, "run").rows, trace.tokens, strict=True):
        alternatives = [(each.id, each.p) for each in token.top]
        for name, value in numbers_of(row).items():
            meant = getattr(token, attributes.get(name, name.lower()))
            if name == "p" and temperature == 0:
                meant = dict(alternatives).get(token.id, math.exp(token.logprob))
            assert value == pytest.approx(meant, rel=1e-8, nan_ok=True) and number(value) == number(
                meant
            )
        ids = [float(value) for value in row[6][1].split(",")[::2]]
        assert ids == [alternative.id for alternative in token.top] and len(row[6][0]) == len(ids)
        assert row[4] == ((visible(token.own_piece), token.own) if token.own != token.id else ())
        for id_, p in (map(float, words.split(",")[:2]) for _, words in row[5]):
            assert p == pytest.approx(dict(alternatives).get(int(id_), p), rel=1e-8) and p > 0


def test_live_numbers_end_as_the_summary_says() -> None:
    trace = make_trace(rule="mars", new_tokens=70)
    live = NOTHING
    for step in trace.steps:
        live = counted(live, step)
    names = ("new_tokens", "steps", "relaxed", "wall_s", "ttft_s", "tokens_per_s", "tau", "tv_max")
    shown, ended = (attrgetter(*names)(each) for each in (live, trace.summary))
    assert shown == ended and live.tv_sum == pytest.approx(trace.summary.tv_sum)
    assert stat_tiles(live) == ended_view(trace, "run").tiles
    assert all(value == "–" for _, value, _, _ in stat_tiles(NOTHING))  # before the first step


DOCS = Path(__file__).parents[3] / "docs" / "reference" / "token-view.md"


@pytest.fixture(scope="module")
def stored() -> tuple[Trace, ...]:
    return example.stored()


def test_the_input_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [field.name for field in fields(LaneView) if f"* `{field.name}` " not in text] == []
    assert [name for name, _ in FIELDS if f"`{name}`" not in text] == []
    outcomes = [*(outcome.value for outcome in Outcome), "given"]
    assert (
        ", ".join(f"{number} {name}" for number, name in enumerate(outcomes)) in text
        and len(outcomes) - 1 == PREFIX
    )


def test_the_example_shows_every_stored_run(stored: tuple[Trace, ...]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    made: dict[str, Any] = {}
    with one_loop():
        exec(example, made)
    assert len(made["page"].blocks) == len(stored)


def test_a_trace_is_read_from_its_json(stored: tuple[Trace, ...]) -> None:
    trace = stored[1]
    assert repr(read_trace(json.dumps(asdict(trace)))) == repr(trace)  # nan is not equal to itself
    view = ended_view(trace, "mine")
    assert json.loads(token_view(view).value)["run"] == "mine"
    with pytest.raises(ValueError, match="steps"):
        read_trace(json.dumps(asdict(trace) | {"steps": 5}))
