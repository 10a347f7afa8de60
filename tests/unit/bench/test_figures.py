"""Figures, tables and command lines that all measurements share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.common.command import Command
from bench.common.report import Figure, Report, Table, markdown


def test_a_figure_is_the_median_and_keeps_its_samples() -> None:
    figure = Figure.of("time", iter([3.0, 1.0, 2.0]), "s", most=2)
    assert (figure.value, figure.note, figure.goal, figure.reached) == (2.0, "1 to 3, n = 3", "≤ 2", True)
    assert figure.samples == (3.0, 1.0, 2.0)
    assert Figure.of("time", [2.5], least=3).reached is False
    assert Figure("time", 2.5).reached is None


def test_a_cell_cannot_leave_its_row_or_column() -> None:
    text = markdown(Report("T", tables=[Table(("a", "b"), [("x | y\nz", None), ("whole", 12.0)])]))
    assert text.splitlines()[-2:] == [r"| x \| y z | – |", "| whole | 12 |"]


def test_the_command_is_reported_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    command = Command("bench.x", "What it is.", max_runs=7, clicks=(8, 2))
    assert command.read(["--out", "here"]).max_runs == 7
    assert command.line == "python -m bench.x --out here"
    with pytest.raises(SystemExit):
        command.read(["--max-runs", "0"])
    assert "--max-runs: 0; it must be 1 or more" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.read(["--clicks", "1"])
    assert "--clicks: 1; it must be 2 or more" in capsys.readouterr().err


def test_a_result_is_written_with_the_command_the_machine_and_facts_of_its_own(tmp_path: Path) -> None:
    command, device = Command("bench.x", "What it is."), torch.device("cpu")
    command.read(["--out", str(tmp_path)])
    text = command.save(Report("T", facts={"dtype": "float32"}), "x", device)
    assert command.path("x", device).with_suffix(".md").read_text(encoding="utf-8") == text
    assert f"- command: `python -m bench.x --out {tmp_path}`" in text and "- dtype: float32" in text
    assert "- hardware: " in text and "device cpu" in text
