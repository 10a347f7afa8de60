"""The stored example of Compare is what the engine writes today, and works as a result does."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from mars_core.types import Trace
from ui.result import example
from ui.result.stored_runs import ShownRuns, StoredRuns
from ui.settings.form import FIRST_LANES
from ui.tabs.compare.tab import example_result


@pytest.fixture(scope="module")
def stored() -> tuple[Trace, ...]:
    return example.stored()


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
