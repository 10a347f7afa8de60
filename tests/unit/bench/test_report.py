"""The Markdown follows from the document alone, and the document survives its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.document import dump, read, signed, text_of
from tests.unit.bench.documents import sample, stored, timed


def test_numbers_stand_where_they_belong() -> None:
    lines = text_of(stored()).splitlines()
    assert "- hardware: A CPU" in lines
    assert "| method | tokens/s (median) | × generate | τ | tokens |" in lines
    assert "| generate | 123 | 1.00× (1.00–1.00) | – | 48 |" in lines
    assert "| strict | 123 | 2.12× (1.50–2.50) | 4.50 | 48 |" in lines
    text = "\n".join(lines)
    assert "- At temperature 0, speed of `strict` over transformers `generate`: 2.12× (1.50–2.50); the goal" in text
    assert "of transformers `generate`, token for token: `strict` 3 of 4." in text


def test_a_share_that_rounds_to_nothing_has_no_sign() -> None:
    assert (signed(-0.0001), signed(-0.02), signed(0.5)) == ("0.0 %", "−2.0 %", "50.0 %")


@pytest.mark.parametrize(
    "document", [stored(), timed({"a": [[0.1, 1 / 3]], "b": [[2e-7, 5.0]]})], ids=["stored", "timed"]
)
def test_json_gives_the_same_document(tmp_path: Path, document: object) -> None:
    path = tmp_path / "result.json"
    path.write_text(dump(document), encoding="utf-8")  # type: ignore[arg-type]
    assert read(path) == document


def test_samples_are_named_and_stand_one_a_line() -> None:
    text = dump(timed({"a": [[0.5], [0.25]]}))
    assert json.loads(text)["sample"] == list(sample(0, 0, 1.0)._fields)
    assert '[ 1, 0, 0.25, 12, 4, "a" ]' in [line.strip(" ,") for line in text.splitlines()]
