"""Fewer resamples: just enough for a level of 0.001 after Holm's correction."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.lossless.draws.RESAMPLES", 1_999)
    monkeypatch.setattr("evaluation.lossless.draws.FINER", 1.1)
