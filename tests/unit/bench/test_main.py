"""What the command stores is counted from its samples, and its exit status says whether texts are
equal that must be."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench import __main__ as bench_main
from bench.common.measure import TimedSample
from mars_core.decoder.cache import ANY_SHAPE
from mars_core.models import BUNDLED_PAIR

NONE, STRICT, LLAMA = "none", "strict, n-grams", "llama.cpp"
SECONDS = {bench_main.GENERATE: 4.0, NONE: 1.6, STRICT: 0.8, LLAMA: 1.2}


def _samples(odd: str, names: tuple[str, ...]) -> dict[str, list[TimedSample]]:
    """Two prompts, the second at half the speed; the method ``odd`` writes another text."""
    return {
        name: [
            TimedSample(
                prompt,
                0,
                SECONDS[name] * (prompt + 1),
                12,
                12 if name == NONE else 6 if name == STRICT else 0,
                str(name == odd),
            )
            for prompt in (0, 1)
        ]
        for name in names
    }


@pytest.mark.parametrize(("odd", "status"), [("", 0), (STRICT, 1), (LLAMA, 0)])
def test_ratios_goals_and_exit_status(
    odd: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    batches = iter([tuple(SECONDS), (NONE, STRICT)])
    pair = SimpleNamespace(
        device=torch.device("cpu"), dtype=torch.float32, spec=BUNDLED_PAIR, shapes=ANY_SHAPE
    )
    monkeypatch.setattr(bench_main, "loaded", lambda _: pair)
    for name in ("ours", "peers"):
        monkeypatch.setattr(bench_main, name, lambda *_: {})
    monkeypatch.setattr(bench_main, "LLAMA", tmp_path / "none")
    monkeypatch.setattr(bench_main, "interleaved", lambda *_: _samples(odd, next(batches)))
    assert bench_main.main(["--prompts", "2", "--out", str(tmp_path)]) == status
    (file,) = tmp_path.glob("*-real-cpu.json")
    stored = json.loads(file.read_text(encoding="utf-8"))
    reached = {figure["name"]: (figure["value"], figure["reached"]) for figure in stored["figures"]}
    assert reached == {
        f"none / {bench_main.GENERATE}": (2.5, True),
        f"{NONE} / llama.cpp": (0.75, False),
        "strict, n-grams / llama.cpp": (1.5, True),
        "strict, n-grams / none": (2.0, True),
    }
    lines = file.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    same = "0 of 2" if odd == STRICT else "2 of 2"
    assert f"| strict, n-grams | 11.25 | 5 (5–5)× | 2 | {same} |" in lines
