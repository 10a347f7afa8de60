"""The measurement of a GPU, rehearsed on the CPU: every part in tiny sizes, what is written of
them, and their arithmetic."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench.common.decoding import DRAFTERS, Ours, Timed
from bench.common.measure import TimedSample
from bench.common.report import MeasuredFigure
from bench.cuda import __main__ as command
from bench.cuda.__main__ import PartOutcome
from bench.cuda.coupled import coupled_pair
from bench.cuda.parts import PARTS, CudaPart, outcomes
from bench.cuda.shapes import TINY_SHAPES
from bench.cuda.speed import LOOP, STRICT, bounds, goals, weight_bytes
from bench.cuda.trial import TINY, CudaTrial

CPU = torch.device("cpu")
CHAINS = ("none", "draft model", "EAGLE-3 chain", "n-grams")


@pytest.fixture
def rehearsed() -> CudaTrial:
    return CudaTrial(CPU, TINY, until=time.perf_counter())


def measured(trial: CudaTrial, name: str) -> dict[str, MeasuredFigure]:
    figures = list(PARTS[name].measure(trial))
    assert all(math.isfinite(figure.value) for figure in figures)
    assert len({figure.name for figure in figures}) == len(figures)
    return {figure.name: figure for figure in figures}


def test_speed_measures_floors_peers_and_both_temperatures(rehearsed: CudaTrial) -> None:
    figures = measured(rehearsed, "qwen")
    methods = ["none", *(f"{rule}, {name}" for name in CHAINS[1:3] for rule in ("strict", "mars"))]
    assert {f"{name}, T = {at}" for name in methods for at in (0, 1)} <= set(figures)
    assert {f"{name}, T = 0" for name in ("generate", "assisted", LOOP)} <= set(figures)
    assert {name for name, figure in figures.items() if figure.goal} == {
        f"{STRICT}: verify / its lower bound",
        f"{STRICT}: step / its lower bound",
        f"{STRICT} / assisted",
        f"{STRICT} / {LOOP}",
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
        ("exactness", "exact / free passes, EAGLE-3 tree", ""),
        ("meter", "meter, none", "≤ 3"),
        ("batches", "EAGLE-3 tree: 2 slots / single runs", ""),
    ],
)
def test_a_part_names_its_figures_and_their_goals(
    rehearsed: CudaTrial, part: str, name: str, goal: str
) -> None:
    figures = measured(rehearsed, part)
    assert figures[name].goal == goal


def test_tests_are_counted_line_by_line() -> None:
    output = (
        "tests/unit/a.py::test_x[head, chain] PASSED [ 25%]\ntests/unit/a.py::test_y FAILED [ 50%]\n"
        "tests/unit/a.py::test_z SKIPPED (no CUDA device) [ 75%]\nERROR tests/unit/b.py\nFAILED tests/unit/a.py::test_y - x\n"
    )
    figures = {figure.name: figure for figure in outcomes(output)}
    assert [figure.value for figure in figures.values()] == [1, 1, 1, 1]
    assert figures["tests failed"].note == "test_y" and figures["tests failed"].reached is False
    assert figures["files of tests that cannot be read"].note == "tests/unit/b.py"


@pytest.mark.parametrize("status", [0, 1])
def test_a_failed_test_is_a_failed_part(
    status: int, rehearsed: CudaTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"print('tests/unit/a.py::test_x PASSED'); raise SystemExit({status})"
    monkeypatch.setattr("bench.cuda.parts.COMMAND", ("-c", code))
    figures = []
    with suppress(SystemExit) if status else nullcontext():
        for figure in PARTS["tests"].measure(rehearsed._replace(until=time.perf_counter() + 600)):
            figures.append(figure)
        assert not status
    assert [figure.value for figure in figures] == [0, 1, 0, 0]


def measuring(_trial: CudaTrial, *, ends: str) -> Iterator[MeasuredFigure]:
    """In another process."""
    yield MeasuredFigure("one", 2)
    sys.stderr.write("a log")
    if ends == "fails":
        raise SystemExit(3)
    if ends == "sleeps":
        time.sleep(600)
    if ends == "dies":
        os._exit(4)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ("", "done"),
        ("fails", "failed: it ended with 3"),
        ("dies", "failed: it ended with 4"),
        ("sleeps", "stopped after 500 s"),
    ],
)
def test_what_was_measured_before_an_end_is_stored(
    ends: str, status: str, rehearsed: CudaTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ends == "sleeps":  # its time is up once it has written
        times = chain([0.0, 0.0], repeat(1e6))
        monkeypatch.setattr(command, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    part = CudaPart(partial(measuring, ends=ends), 0.0, "A part")
    outcome = command.attempted("part", part, rehearsed, 500.0)
    assert (outcome.status, outcome.figures) == (status, [MeasuredFigure("one", 2)])
    if not ends or ends == "fails":
        assert "a log" in outcome.log


def test_results_are_written_after_every_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def attempted(name: str, part: CudaPart, trial: CudaTrial, seconds: float) -> PartOutcome:
        assert part is PARTS[name] and trial.size is TINY and seconds > 0
        assert len(list(tmp_path.iterdir())) == (0 if name == "tests" else 2)
        figures = [
            MeasuredFigure("speed", 2.0, "×", least=1.5),
            MeasuredFigure("cost", 4.5, "%", "a note", most=3),
            MeasuredFigure("plain", 1234.5),
        ]
        return PartOutcome(
            name,
            part.title,
            "done" if name == "tests" else "failed: it ended with 1",
            1.0,
            figures,
            "a log",
        )

    monkeypatch.setattr(command, "attempted", attempted)
    assert command.main(["--tiny", "--only", "tests", "meter", "--out", str(tmp_path)]) == 1
    text, data = (
        next(tmp_path.glob(f"*-cuda-tiny-cpu{end}")).read_text() for end in (".md", ".json")
    )
    assert text in capsys.readouterr().out
    assert "no number means anything" in text and "2 of 4 goals reached" in text
    assert "| Tests marked cuda: speed | 2 × | ≥ 1.5 | yes |" in text
    assert "| What telemetry costs, 4B: cost | 4.50 % | ≤ 3 | no | a note |" in text
    assert "| plain | 1234 | – | – |" in text and text.count("a log") == 1
    parts = json.loads(data)["parts"]
    assert [one["reached"] for one in parts[0]["figures"]] == [True, False, None]


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


def test_goals_compare_times_with_floors_and_speeds_with_each_other() -> None:
    pair = coupled_pair(TINY_SHAPES["llama"], 0.1, CPU, torch.float32)
    method = Ours(
        pair,
        "mars",
        DRAFTERS["draft model"],
        0.0,
        10,
        timed=[Timed(5, 1.4, 1.1, 2.5), Timed(2, 9, 9, 9)],
    )
    bytes_a_s = float(weight_bytes(pair.target))  # the target's lower bound is one second
    verify, draft, step, _ = bounds(method, bytes_a_s)
    drafted = 5 * weight_bytes(pair.draft) / bytes_a_s
    assert (verify.value, verify.reached) == (1.1, True)
    assert (draft.value, draft.reached) == (pytest.approx(1.4 / drafted), None)
    assert step.value == pytest.approx(2.5 / (1 + drafted))
    samples = {
        name: [TimedSample(0, 0, s, 10, 3, "")]
        for name, s in ((STRICT, 1.0), ("assisted", 3.0), (LOOP, 1.1))
    }
    assert [(round(each.value, 2), each.reached) for each in goals(samples)] == [
        (3.0, True),
        (1.1, False),
    ]
