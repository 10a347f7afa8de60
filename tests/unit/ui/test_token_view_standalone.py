"""The token view as a component for other programs, its documented input, and the stored example of Compare."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mars_core.types import Outcome, Trace
from tests.traces import make_trace
from ui.result import example
from ui.result.stored_runs import ShownRuns, StoredRuns
from ui.settings.form import FIRST_LANES
from ui.tabs.compare.tab import example_result
from ui.token_view.standalone import read_trace, token_view
from ui.token_view.view import FIELDS, GIVEN, LaneView, ended_view

DOCS = Path(__file__).parents[3] / "docs" / "token-view.md"


@pytest.fixture(scope="module")
def stored() -> tuple[Trace, ...]:
    return example.stored()


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


def test_a_trace_is_read_from_its_json(stored: tuple[Trace, ...]) -> None:
    trace = stored[1]
    assert repr(read_trace(json.dumps(asdict(trace)))) == repr(trace)  # nan is not equal to itself
    view = ended_view(trace, "mine")
    assert json.loads(token_view(view).value)["run"] == "mine"
    with pytest.raises(ValueError, match="steps"):
        read_trace(json.dumps(json.loads(example.FILE.read_bytes())[0] | {"steps": 5}))


def test_the_file_is_what_the_engine_makes(stored: tuple[Trace, ...]) -> None:
    """After a change of the bundled pair or the engine: ``python -m ui.result.example``."""
    made = example.run_again()
    assert [trace.token_ids for trace in made] == [trace.token_ids for trace in stored]
    assert [trace.text for trace in made] == [trace.text for trace in stored]
    for new, old in zip(made, stored, strict=True):
        assert new.config.rule == old.config.rule and new.config.sampling == old.config.sampling
        assert [step.kept for step in new.steps] == [step.kept for step in old.steps]
        for one, other in zip(new.tokens, old.tokens, strict=True):
            assert one.outcome is other.outcome
            assert math.isclose(one.z1, other.z1, abs_tol=1e-2) and math.isclose(one.p, other.p, abs_tol=1e-2)


def test_it_is_a_result_of_as_many_lanes_as_the_page_begins_with(stored: tuple[Trace, ...]) -> None:
    traces = dict(enumerate(stored))
    result = example_result(traces, {lane: f"example-{lane}" for lane in traces})
    assert len(result.lanes) == FIRST_LANES and result.details is not None
    assert result.strip.state == "example" and {lane.state for lane in result.lanes} == {"example"}
    assert all(result.details.plots[f"margins-{lane + 1}"] for lane in traces)
    assert any(token.outcome == "relaxed" for token in stored[1].tokens)


def test_its_trees_can_be_read_though_no_store_has_it(stored: tuple[Trace, ...]) -> None:
    runs: Any = StoredRuns(SimpleNamespace(), {"example-1": stored[1]})  # type: ignore[arg-type]
    assert runs.read(None, ShownRuns({1: "example-1"}), 1) is stored[1]
