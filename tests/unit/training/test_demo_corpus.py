"""The bundled pair's text: repeatable, varied, arithmetically right, and disjoint from what
measures the pair."""

from __future__ import annotations

import random
import re
from itertools import islice
from types import SimpleNamespace

import pytest

from training.demo.corpus import documents, held_out
from training.demo.problems import LIMIT, problem

_EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")


def test_every_equation_is_true_and_the_answer_is_the_last_result() -> None:
    rng = random.Random(0)
    for _ in range(2_000):
        item = problem(rng)
        results = []
        for a, sign, b, result in _EQUATION.findall(item.solution):
            left, right = int(a), int(b)
            expected = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[
                sign
            ]
            assert int(result) == expected
            results.append(int(result))
        assert results[-1] == item.answer
        assert 0 < item.answer <= LIMIT
        assert item.solution.endswith(f"\n#### {item.answer}")


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
