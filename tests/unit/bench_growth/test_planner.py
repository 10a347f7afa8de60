"""The planner's sweep over K writes planned beside measured numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.growth import planner


def test_what_was_planned_and_measured_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "MOST", 2)
    monkeypatch.setattr(planner, "DEFAULT", 2)
    assert planner.main(["--prompts", "1", "--rounds", "1", "--tokens", "16", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*-planner-cpu.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found.keys() >= {"0", "1"} and "load average at the end" in found["machine"]
    for each in (found["0"], found["1"]):
        assert len(each["rates"]) == 2 and all(0 <= rate <= 1 for rate in each["rates"])
        assert [row[0] for row in each["rows"]] == ["1", "2"]
        _, tokens, tau, speedup, *_ = each["rows"][1]
        assert tokens == pytest.approx(tau, rel=0.5) and 1 <= tokens <= 3 and speedup > 0
