"""The token view as a component for other programs, and its documented input."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from mars_core.types import Outcome
from tests.traces import make_trace
from ui.result.example import FILE, stored
from ui.token_view.standalone import read_trace, token_view
from ui.token_view.view import FIELDS, GIVEN, LaneView, ended_view

DOCS = Path(__file__).parents[3] / "docs" / "token-view.md"


def test_the_input_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [field.name for field in fields(LaneView) if f"| `{field.name}` |" not in text] == []
    assert [name for name, _ in FIELDS if f"`{name}`" not in text] == []
    outcomes = [*(outcome.value for outcome in Outcome), "given"]
    assert ", ".join(f"{number} {name}" for number, name in enumerate(outcomes)) in text and len(outcomes) - 1 == GIVEN


def test_what_would_be_published_stands_alone() -> None:
    entry = token_view(make_trace(rule="mars"))._to_publish_format(name="Token view")
    assert entry["id"] == "token-view" and "mars-text" in entry["html_template"]
    assert "JSON.parse(props.value)" in entry["js_on_load"]
    assert "--mars-relaxed:" in entry["head"] and ".mars-pop" in entry["head"] and "http" not in entry["head"]
    assert json.loads(entry["default_props"]["value"])["state"] == "completed"


def test_a_trace_is_read_from_its_json() -> None:
    trace = stored()[1]
    assert repr(read_trace(json.dumps(asdict(trace)))) == repr(trace)  # nan is not equal to itself
    view = ended_view(trace, "mine")
    assert json.loads(token_view(view).value)["run"] == "mine"
    with pytest.raises(ValueError, match="steps"):
        read_trace(json.dumps(json.loads(FILE.read_bytes())[0] | {"steps": 5}))
