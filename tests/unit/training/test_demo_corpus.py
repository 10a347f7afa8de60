"""The bundled pair's text: repeatable, varied, arithmetically right, and disjoint from what
measures the pair."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import pytest

from training.demo.corpus import documents, held_out


def test_held_out_problems_never_train_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems that the stream has are not in it once they are held out."""
    assert len({item.question for item in held_out()}) == 600
    requests = [document.request for document in islice(documents(1), 60) if document.request]
    monkeypatch.setattr(
        "training.demo.corpus.held_out",
        lambda: [SimpleNamespace(question=each) for each in requests],
    )
    assert len(requests) > 20
    assert not {*requests} & {document.request for document in islice(documents(1), 60)}
