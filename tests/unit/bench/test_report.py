"""The Markdown follows from the document alone, and the document survives its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.measure import Spread
from bench.report import dump, markdown, percent, read
from tests.unit.bench.documents import sample, timed, told


def test_numbers_stand_where_they_belong() -> None:
    lines = markdown(told()).splitlines()
    assert "- hardware: A CPU" in lines
    assert "| method | tokens/s (median) | × generate | τ | tokens |" in lines
    assert "| generate | 123 | 1.00× (1.00–1.00) | – | 48 |" in lines
    assert "| strict | 123 | 2.12× (1.50–2.50) | 4.50 | 48 |" in lines
    assert "| strict / generate | 2.12× (1.50–2.50) | 2.00× | yes |" in lines
    assert "| τ: strict / none | 4.50× (4.25–4.75) | 5.00× | no |" in lines
    assert "| eagle3 tree / eagle3 chain | 0.75× (0.50–1.25) | 1.00× | no (information) |" in lines
    assert "| steps/s: eagle3 tree / eagle3 chain | 0.62× (0.50–0.75) | – | – |" in lines
    assert "| strict | 0 | 2.5 % (−1.2 % to 4.0 %) | yes |" in lines
    assert "| strict | 1 | 4.2 % (0.0 % to 5.0 %) | no |" in lines
    assert "- strict = generate: 3 of 4" in lines


def test_a_share_that_rounds_to_nothing_has_no_sign() -> None:
    assert percent(Spread(-0.0001, -0.02, 0.5, 3)) == "0.0 % (−2.0 % to 50.0 %)"


@pytest.mark.parametrize("document", [told(), timed({"a": [[0.1, 1 / 3]], "b": [[2e-7, 5.0]]})], ids=["told", "timed"])
def test_json_gives_the_same_document(tmp_path: Path, document: object) -> None:
    path = tmp_path / "result.json"
    path.write_text(dump(document), encoding="utf-8")  # type: ignore[arg-type]
    assert read(path) == document


def test_samples_are_named_and_stand_one_a_line() -> None:
    text = dump(timed({"a": [[0.5], [0.25]]}))
    assert json.loads(text)["sample"] == list(sample(0, 0, 1.0)._fields)
    assert '[ 1, 0, 0.25, 12, 4, "a" ]' in [line.strip(" ,") for line in text.splitlines()]
