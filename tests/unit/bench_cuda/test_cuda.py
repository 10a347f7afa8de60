"""The measurement of a GPU, tried on the CPU: the whole of it in tiny sizes, and its arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from bench.coupled import PUBLIC, coupled_pair, tiny
from bench.cuda import LOOP, THETAS, Costs, copy_bandwidth, draft_bytes, goals, main, pass_bytes
from bench.measure import Sample

CPU = torch.device("cpu")
SMALL = ["--tiny", "--prompts", "2", "--rounds", "1", "--max-new-tokens", "14"]
COSTS = Costs(
    bandwidth=1e9, target_bytes=10**9, draft_bytes=10**9, steps=3, draft_s=1.4, verify_s=1.1, step_s=2.5,
)  # fmt: skip


@pytest.mark.parametrize("key", list(PUBLIC))
def test_a_tiny_run_measures_writes_and_says_that_it_is_tiny(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--pair", key, "--out", str(tmp_path)]) == 0
    text, data = (next(tmp_path.glob(f"*-cuda-{key}-tiny-cpu{end}")).read_text() for end in (".md", ".json"))
    document = json.loads(data)
    assert capsys.readouterr().out == text
    assert "tiny shapes, no number means anything" in text
    peers = ["assisted", LOOP] if key != "eagle3" else []
    greedy, sampled = ([row["method"] for row in document["tables"][at]] for at in ("0", "1"))
    assert greedy == ["none", "strict", *peers]
    assert sampled == ["strict", *(f"mars, θ = {theta:g}" for theta in THETAS)]
    assert [name for name, *_ in document["goals"]] == [
        "verify / its floor", "step / its floor", *(f"strict / {name}" for name in peers)
    ]  # fmt: skip
    assert all(same == [2, 2] for same in document["same as strict"].values())
    assert document["costs"]["step_s"] >= document["costs"]["verify_s"] > 0
    assert all(f"| {name} |" in text for name in (*greedy, *sampled))


def test_without_a_device_one_sentence_and_status_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "No CUDA device" in said.err
    assert not list(tmp_path.iterdir())


def test_goals_compare_times_with_floors_and_speeds_with_each_other() -> None:
    samples = {
        "none": [Sample(0, 0, 4.0, 10, 10, "")],
        "strict": [Sample(0, 0, 1.0, 10, 3, "")],
        "assisted": [Sample(0, 0, 3.0, 10, 0, "")],
        LOOP: [Sample(0, 0, 1.1, 10, 3, "")],
    }
    assert [(name, round(measured, 2), reached) for name, measured, _, reached in goals(COSTS, samples)] == [
        ("verify / its floor", 1.1, True),
        ("step / its floor", 1.25, True),
        ("strict / assisted", 3.0, True),
        (f"strict / {LOOP}", 1.1, False),
    ]


def test_floors_are_bytes_over_bandwidth() -> None:
    assert COSTS.parts == {"verify": (1.1, 1.0), "draft": (1.4, 1.0), "step": (2.5, 2.0)}


def test_a_pass_reads_all_weights_but_a_table_that_is_only_looked_up() -> None:
    shape = tiny(PUBLIC["llama"]).target
    table = 4 * shape.vocabulary * shape.hidden
    sizes = {}
    for tied in (True, False):
        model = AutoModelForCausalLM.from_config(shape.config(tied=tied), dtype=torch.float32)
        sizes[tied] = pass_bytes(model)
        assert sizes[tied] == 4 * model.num_parameters() - (0 if tied else table)
    assert sizes[True] == sizes[False]
    assert pass_bytes(coupled_pair(tiny(PUBLIC["llama"]), 0.1, CPU, torch.float32).target) == sizes[False]


def test_a_draft_reads_its_model_once_a_token_and_a_head_its_fusion_once_a_step() -> None:
    pair = coupled_pair(tiny(PUBLIC["qwen"]), 0.1, CPU, torch.float32)
    assert draft_bytes(pair) == 5 * pass_bytes(pair.draft)
    pair = coupled_pair(tiny(PUBLIC["eagle3"]), 0.1, CPU, torch.float32)
    width, fusion = 128, 3 * 128 * 128
    layer = 2 * width * (128 + 64 + 64) + 128 * width + 3 * width * 256 + 3 * width
    assert draft_bytes(pair) == 4 * (5 * (layer + width + 1024 * width) + fusion)


def test_bandwidth_is_bytes_read_and_written_over_the_median_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr("bench.cuda.time.perf_counter", lambda: float(next(ticks)))
    assert copy_bandwidth(CPU, 1000) == 2000
