"""What the command stores is counted from its samples, and its exit status says whether outputs are equal that must be."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench import __main__ as bench_main
from bench.common.measure import Sample, Samples
from bench.document import read, text_of
from mars_core.types import PromptConfig
from tests.unit.bench.documents import sample

NAMES = {"generate", "assisted", *bench_main.METERED, *(name for goal in bench_main.GOALS for name in goal[1:3])}
SECONDS = {"generate": 4.0, "none": 3.2, "strict": 1.0, "assisted": 2.0, "strict, meter off": 0.96}


def samples(odd: str = "") -> Samples:
    """Two prompts, the second at half the speed or nearly so; the method ``odd`` writes another text."""
    names = [*sorted(NAMES | {each for pair in bench_main.EQUAL for each in pair}, key=lambda name: name != "generate")]
    return {
        name: [_sample(name, prompt, "other" if name == odd else "same") for prompt in range(2)]
        for name in [*names, *(f"{name}, meter off" for name in bench_main.METERED)]
    }


def _sample(name: str, prompt: int, digest: str) -> Sample:
    seconds = SECONDS.get(name, 1.0) * (1 + prompt)
    seconds -= 0.08 if (name, prompt) == ("strict, meter off", 1) else 0
    return sample(prompt, 0, seconds, steps=3 if name == "eagle3 tree" else 6, digest=digest)


def test_the_document_is_counted_from_the_samples() -> None:
    options = argparse.Namespace(prompts=2, rounds=1, k=5, max_new_tokens=12)
    prompts = [PromptConfig("one"), PromptConfig("two")]
    found = bench_main.document({0.0: samples(), 1.0: samples()}, "bench", options, prompts, torch.device("cpu"))
    goals = {(goal.measure, goal.method, goal.baseline): goal for goal in found.goals}
    assert goals["speed", "none", "generate"].measured.median == 1.25
    assert goals["speed", "strict", "none"].reached and goals["speed", "strict", "assisted"].reached
    assert goals["tau", "eagle3 tree", "strict"].measured.median == 2.0
    share = found.shares[0]
    assert (share.method, share.temperature) == ("strict", 0.0)
    assert share.measured.median == pytest.approx(
        0.06
    )  # 1 s with the meter and 0.96 s without, 2 s and 1.84 s: 4 %, 8 %
    assert share.measured.low < share.measured.median < share.measured.high
    assert found.tables[0].baseline == "generate" and found.prompts == ("one", "two")


@pytest.mark.parametrize(("odd", "status"), [("", 0), ("ngram", 1), ("mars", 0)])
def test_exit_status_says_whether_outputs_are_equal(
    odd: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def decoded(_methods: Mapping[str, object], prompts: Sequence[PromptConfig], rounds: int) -> Samples:
        assert (len(prompts), rounds) == (2, 1)
        return samples(odd)

    pair = SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setattr(bench_main, "bundled", lambda: pair)
    monkeypatch.setattr(bench_main, "methods", lambda *_: {})
    monkeypatch.setattr(bench_main, "interleaved", decoded)
    assert bench_main.main(["--prompts", "2", "--rounds", "1", "--out", str(tmp_path)]) == status
    (stored,) = tmp_path.glob("*-bundled-cpu.json")
    assert stored.with_suffix(".md").read_text(encoding="utf-8") == text_of(read(stored))
