"""The lines of the trace file, and the counters."""

from __future__ import annotations

import json
import multiprocessing
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from prometheus_client import REGISTRY

from mars_core.rules import RULES
from mars_vllm.arguments import RequestRule, RuleGroup
from mars_vllm.judging import Best
from mars_vllm.tracing import JudgedStep, TracedEngine
from tests.unit.storage.exports import file_limit

REQUEST = RequestRule(RULES["mars"], {"theta": 0.9}, True, RuleGroup("mars", True, 0))
NAME = 'a\n"b'  # of a request
ABOUT = {"model": "m", "drafter": "ngram", "vllm": "0.32.0"}


def params(**fields: Any) -> SimpleNamespace:
    usual = {
        "temperature": 0.0,
        "seed": 7,
        "stop_token_ids": [],
        "ignore_eos": False,
        "all_stop_token_ids": {9},
        "max_tokens": 5,
    }
    return SimpleNamespace(**usual | fields)


def judged(drafted: list[int], relaxed: list[bool]) -> JudgedStep:
    rows = len(drafted)
    z = torch.tensor([[2.0, -torch.inf]] * rows)
    return JudgedStep(
        torch.tensor(drafted), torch.tensor(relaxed), Best(z, torch.tensor([[1, 2]] * rows))
    )


def engine_at(path: Path, rank: int = 0) -> TracedEngine:
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(rank=rank, tensor_parallel_size=2),
        model_config=SimpleNamespace(model="m", served_model_name="served"),
        reasoning_config=None,
        structured_outputs_config=SimpleNamespace(reasoning_parser="", enable_in_reasoning=False),
        speculative_config=SimpleNamespace(method="ngram", model=None),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARS_TRACE", str(path))
        patch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.32.0"))  # type: ignore[misc]
        tokenizers = SimpleNamespace(cached_tokenizer_from_config=lambda _: None)
        patch.setitem(sys.modules, "vllm.tokenizers", tokenizers)
        return TracedEngine(config, "V1")


@pytest.fixture
def recorder(tmp_path: Path) -> TracedEngine:
    return engine_at(tmp_path / "trace.jsonl")


def lines(recorder: TracedEngine) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(recorder.path).read_text().splitlines()]


def test_a_finished_request_is_one_line(recorder: TracedEngine) -> None:
    recorder.begin(NAME, REQUEST, params(), [3, 4])
    recorder.records[NAME].step([5], None, slice(0, 0))
    recorder.records[NAME].step([6, 7], judged([1, 6, 8], [False, True, True]), slice(1, 3))
    for _ in range(2):
        recorder.finish([NAME])
    (line,) = lines(recorder)
    assert line.pop("finished").endswith("+00:00")
    assert line == {
        "format": "mars-vllm-1",
        "id": NAME,
        **ABOUT,
        "plugin": "0.1.0",
        "rule": "mars",
        "parameters": {"theta": 0.9},
        "protected": [],
        "scope": "all",
        "temperature": 0.0,
        "seed": 7,
        "prompt_ids": [3, 4],
        "steps": [
            {key: [] for key in ("drafted", "relaxed", "z1", "z2", "id1", "id2")}
            | {"kept": 0, "emitted": [5]},
            {
                "drafted": [6, 8],
                "kept": 1,
                "relaxed": [True, False],
                "z1": [2.0, 2.0],
                "z2": [None, None],
                "id1": [1, 1],
                "id2": [2, 2],
                "emitted": [6, 7],
            },
        ],
    }
    assert Path(recorder.path).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("fields", "emitted", "expected", "accepted"),
    [
        ({}, [6, 7, 8], [6, 7, 8], 2),
        ({}, [6, 9, 8], [6, 9], 2),  # what follows the end of the text is not part of it
        ({"ignore_eos": True}, [6, 9, 8], [6, 9, 8], 2),
        ({"max_tokens": 2}, [6, 7, 8], [6], 1),
        ({"max_tokens": None}, [6, 7, 8], [6, 7, 8], 2),
    ],
)
def test_a_trace_ends_with_the_text(
    recorder: TracedEngine,
    fields: dict[str, Any],
    emitted: list[int],
    expected: list[int],
    accepted: int,
) -> None:
    recorder.begin("a", REQUEST, params(**fields), None)
    record = recorder.records["a"]
    record.step([5], None, slice(0, 0))
    record.step(emitted, judged([6, 7], [True, True]), slice(0, 2))
    assert (record.steps[1]["emitted"], record.steps[1]["kept"]) == (expected, accepted)
    assert record.steps[1]["relaxed"] == [i < accepted for i in range(2)]
    record.step([4], None, slice(0, 0))
    assert len(record.steps) == (3 if expected == emitted else 2)


def append(path: str, name: str) -> None:
    recorder = engine_at(Path(path))
    for _ in range(20):
        recorder.begin(name, REQUEST, params(), [1] * 20_000)
        recorder.finish([name])


def test_processes_that_write_at_once_write_complete_lines(recorder: TracedEngine) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append, args=(recorder.path, str(i))) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    written = lines(recorder)
    assert sorted(line["id"] for line in written) == sorted(
        str(i) for i in range(4) for _ in range(20)
    )


def test_a_line_that_does_not_fit_is_left_out_and_harms_nothing(
    recorder: TracedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.begin("short", REQUEST, params(), [])
    recorder.finish(["short"])
    with file_limit(Path(recorder.path).stat().st_size + 100):
        recorder.begin("long", REQUEST, params(), [1] * 1000)
        recorder.finish(["long"])
    assert [line["id"] for line in lines(recorder)] == ["short"]
    assert "could not write the trace" in caplog.text


def test_counters_count_judged_and_relaxed_tokens(recorder: TracedEngine) -> None:
    def value(name: str) -> float:
        return (
            REGISTRY.get_sample_value(f"vllm:mars_{name}_tokens_total", {"model_name": "served"})
            or 0
        )

    before = value("judged"), value("relaxed")
    recorder.count(5, torch.tensor([True, False, True]))
    recorder.count(3, torch.tensor([True]))
    assert (value("judged") - before[0], value("relaxed") - before[1]) == (8, 3)
