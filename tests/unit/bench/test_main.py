"""What the command stores is counted from its samples, and its exit status says whether outputs are equal that must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench import __main__ as bench_main
from bench.common.measure import Samples
from bench.document import figures, read
from mars_core.types import PromptConfig
from tests.unit.bench.documents import stored, timed, write


def test_figures_are_counted_from_the_samples() -> None:
    found = {each.name: each for each in figures(stored(odd="ngram"))}
    assert found["speed of none / generate, temperature 0"].value == 1.25
    assert found["speed of strict / none, temperature 0"].reached
    assert found["τ of eagle3 tree / strict, temperature 0"].value == 2.0
    assert found["steps a second of eagle3 tree / eagle3 chain, temperature 0"].goal == ""
    share = found["telemetry of strict, temperature 0"]
    assert share.value == pytest.approx(6) and (share.note, share.reached) == ("3.0 % to 9.0 %", False)
    assert found["outputs of ngram that are not those of none"].value == 2
    assert found["outputs of strict that are not those of none"].reached


def test_tables_have_speeds_ratios_and_passes(tmp_path: Path) -> None:
    path = write(tmp_path / "found.json", stored())
    lines = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    assert "- hardware: A CPU" in lines
    assert "| method | tokens/s (median) | × generate | τ | tokens |" in lines
    assert "| generate | 2 | 1.00× (1.00–1.00) | – | 24 |" in lines
    assert "| strict | 9 | 4.00× (4.00–4.00) | 2.00 | 24 |" in lines


@pytest.mark.parametrize("document", [stored(), timed({"a": [[0.1, 1 / 3]], "b": [[2e-7, 5.0]]})])
def test_json_gives_the_same_document(tmp_path: Path, document: object) -> None:
    assert read(write(tmp_path / "found.json", document)) == document  # type: ignore[arg-type]


@pytest.mark.parametrize(("odd", "status"), [("", 0), ("ngram", 1), ("mars", 0)])
def test_exit_status_says_whether_outputs_are_equal(
    odd: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tables = iter(stored(odd).tables)

    def decoded(_methods: Mapping[str, object], prompts: Sequence[PromptConfig], rounds: int) -> Samples:
        assert (len(prompts), rounds) == (2, 1)
        return next(tables).samples

    monkeypatch.setattr(bench_main, "bundled", lambda: SimpleNamespace(device=torch.device("cpu")))
    monkeypatch.setattr(bench_main, "methods", lambda *_: {})
    monkeypatch.setattr(bench_main, "interleaved", decoded)
    assert bench_main.main(["--prompts", "2", "--rounds", "1", "--out", str(tmp_path)]) == status
    (found,) = tmp_path.glob("*-bundled-cpu.json")
    assert read(found).tables == stored(odd).tables and "device cpu" in read(found).machine["hardware"]
