"""The measurement of a GPU on the CPU: every part in tiny sizes, what is written of them, and their
arithmetic."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import pytest
import torch

from bench.common.decoding import DRAFTERS
from bench.common.report import MeasuredFigure
from bench.cuda import __main__ as command
from bench.cuda.parts import PARTS
from bench.cuda.speed import STRICT
from bench.cuda.trial import TINY, CudaTrial

CPU = torch.device("cpu")
CHAINS = ("none", "draft model", "EAGLE-3 chain", "n-grams")


@pytest.fixture
def rehearsed() -> CudaTrial:
    return CudaTrial(CPU, TINY)


def measured(trial: CudaTrial, name: str) -> dict[str, MeasuredFigure]:
    figures = list(PARTS[name].measure(trial))
    assert all(math.isfinite(figure.value) for figure in figures)
    assert len({figure.name for figure in figures}) == len(figures)
    return {figure.name: figure for figure in figures}


def test_speed_measures_floors_peers_and_both_temperatures(rehearsed: CudaTrial) -> None:
    figures = measured(rehearsed, "qwen")
    methods = ["none", *(f"{rule}, {name}" for name in CHAINS[1:3] for rule in ("strict", "mars"))]
    assert {f"{name}, T = {at}" for name in methods for at in (0, 1)} <= set(figures)
    assert {f"{name}, T = 0" for name in ("generate", "assisted")} <= set(figures)
    assert {name for name, figure in figures.items() if figure.goal} == {
        f"{STRICT}: verify / its lower bound",
        f"{STRICT}: step / its lower bound",
        f"{STRICT} / assisted",
    }
    assert "τ" in figures["strict, EAGLE-3 tree, T = 0"].note


def test_exact_steps_write_the_targets_text_also_when_continued(rehearsed: CudaTrial) -> None:
    figures = measured(rehearsed, "texts")
    assert len(figures) == 2 * (2 * len(DRAFTERS) - 1)
    assert all(figure.value == 0 for figure in figures.values())
    bound = [name for name, figure in figures.items() if figure.goal]
    assert len(bound) == 2 * (2 * len(CHAINS) - 1)
    assert all("exact" in name and "tree" not in name for name in bound)


@pytest.mark.parametrize(
    ("part", "name", "goal"),
    [
        ("graphs", "graphs / eager, draft model", "≥ 1.5"),
        ("exactness", "as loaded / free passes, EAGLE-3 tree", ""),
        ("meter", "meter, none", "≤ 3"),
        ("batches", "EAGLE-3 tree: 2 slots / single runs", ""),
    ],
)
def test_a_part_names_its_figures_and_their_goals(
    rehearsed: CudaTrial, part: str, name: str, goal: str
) -> None:
    figures = measured(rehearsed, part)
    assert figures[name].goal == goal


def test_without_a_device_one_sentence_and_status_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        command.main(["--out", str(tmp_path)])
    assert ended.value.code == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1 and "No CUDA device" in streams.err
    assert not list(tmp_path.iterdir())


def test_nothing_that_such_a_machine_lacks_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of this project anew, beside the libraries that are imported already."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("bench", "mars_core"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("alembic", "gguf", "gradio", "platformdirs", "plotly", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, name, None)
    anew = importlib.import_module("bench.cuda.__main__")
    assert anew is not command and list(anew.PARTS) == list(PARTS)
