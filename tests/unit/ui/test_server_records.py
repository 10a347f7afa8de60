"""A record of a server in History: what is known is shown, what is not is a dash, and nothing is claimed of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.records.read import read_records
from storage import RunStore
from storage.importing import import_files
from tests.unit.ui.places import latest
from ui.kit.labels import settings_line
from ui.result.result import reopened
from ui.settings.stored import stored_form
from ui.tabs.history.list import listing
from ui.tabs.history.runs import run_table
from ui.token_view.tiles import lane_check

STEP = {"kept": 1, "relaxed": [True, False], "z1": [12.0, 9.0], "z2": [11.5, None], "id1": [8, 9], "id2": [6, 7]}
LINE: dict[str, Any] = {
    "format": "mars-vllm-1", "id": "a", "model": "target", "drafter": "eagle3:head", "vllm": "0.32.0", "plugin": "0.1.0", "rule": "mars",
    "parameters": {"theta": 0.9}, "temperature": 0.0, "seed": None, "prompt_ids": [1], "finished": "2026-11-23T08:00:00+00:00",
    "steps": [STEP | {"drafted": [6, 7], "emitted": [6, 9]}],
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "model": "m", "choices": [{"text": "Once upon", "finish_reason": "length"}], "usage": {"completion_tokens": 12},
    "metrics": {"speculative_decoding": {"num_spec_steps": 3, "num_draft_tokens": 15, "num_accepted_draft_tokens": 10,
                                         "num_spec_tokens": 5, "acceptance_histogram": [1, 0, 0, 0, 0, 2]}},
}  # fmt: skip
METRICS = "sglang:spec_accept_length 2.5\n"


def opened(store: RunStore, folder: Path, content: Any) -> Any:
    path = folder / "record"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    import_files(store, [path], read_records)
    return latest(store)


def test_a_line_of_the_plugin_shows_ids_margins_and_relaxed_tokens(store: RunStore, tmp_path: Path) -> None:
    stored = opened(store, tmp_path, LINE)
    result = reopened(stored)
    lane = json.loads(result.lanes[0].json())
    assert [row[0] for row in lane["rows"]] == ["#6 ", "#9 "] and lane["times"] == []
    assert result.details is not None and result.details.plots["ratio"] is not None
    tiles = {name: value for name, value, *_ in lane["tiles"]}
    assert tiles == {"Speed": "–", "τ": "2.00", "First token": "–", "Latency": "–", "Relaxed": "1", "Shift": "–"}
    assert settings_line(stored.runs[0].trace.config) == "temperature 0 · seed – · K 2 · EAGLE-3 drafts · head → target"
    assert "Not known: prompt, text, times." in stored.comment


def test_an_answer_shows_its_counts_and_acceptance_by_position(store: RunStore, tmp_path: Path) -> None:
    stored = opened(store, tmp_path, ANSWER)
    result = reopened(stored)
    assert json.loads(result.lanes[0].json())["rows"][0][0] == "Once upon"
    assert result.details is not None
    acceptance = result.details.plots["acceptance"]
    assert acceptance is not None and [row[2:5] for row in acceptance.data.rows] == [(i, 3, 2 / 3) for i in range(1, 6)]
    cells = {row.name: row.cells[0].text for row in run_table(store.records([stored.runs[0].id])).rows}
    assert (cells["τ, tokens per step"], cells["Drafted"], cells["Acceptance rate"]) == ("4.00", "15", "66.7 %")
    assert "Relaxed" not in cells and "Seed" not in cells and "Peak memory" not in cells
    (row,) = listing(store).rows
    assert (row["source"], row["settings"]) == ("server", ("server, K 5", "T –", "seed –"))


def test_metrics_show_tau_and_what_is_not_reported_is_said_to_be_unknown(store: RunStore, tmp_path: Path) -> None:
    lane = reopened(opened(store, tmp_path, METRICS)).lanes[0]
    tiles = {name: value for name, value, *_ in lane.tiles}
    assert lane.rows == () and lane.empty == "The server did not report the text."
    assert (tiles["τ"], tiles["Relaxed"], tiles["Shift"]) == ("2.50", "–", "–")
    stored = opened(store, tmp_path, {name: ANSWER[name] for name in ("choices", "usage")})
    assert stored.runs[0].trace.config.target.name == "unknown"
    assert listing(store).rows[0]["settings"] == ("server, K –", "T –", "seed –")


def test_compare_does_not_repeat_it_and_no_check_is_claimed(store: RunStore, tmp_path: Path) -> None:
    stored = opened(store, tmp_path, LINE | {"rule": "strict", "parameters": {}})
    with pytest.raises(ValueError, match="This is a run of a server"):
        stored_form(stored, [])
    trace = stored.runs[0].trace
    assert lane_check(trace.config, trace.summary.tv_max, trace.summary.new_tokens).state == ""
