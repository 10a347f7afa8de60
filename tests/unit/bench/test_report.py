"""The Markdown follows from the document alone, and the document survives its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.document import dump, read, text_of
from tests.unit.bench.documents import stored, timed


def test_numbers_stand_where_they_belong() -> None:
    lines = text_of(stored()).splitlines()
    assert "- hardware: A CPU" in lines
    assert "| method | tokens/s (median) | × generate | τ | tokens |" in lines
    assert "| generate | 123 | 1.00× (1.00–1.00) | – | 48 |" in lines
    assert "| strict | 123 | 2.12× (1.50–2.50) | 4.50 | 48 |" in lines
    text = "\n".join(lines)
    assert "- At temperature 0, speed of `strict` over transformers `generate`: 2.12× (1.50–2.50); the goal" in text
    assert "of transformers `generate`, token for token: `strict` 3 of 4." in text


@pytest.mark.parametrize(
    "document", [stored(), timed({"a": [[0.1, 1 / 3]], "b": [[2e-7, 5.0]]})], ids=["stored", "timed"]
)
def test_json_gives_the_same_document(tmp_path: Path, document: object) -> None:
    path = tmp_path / "result.json"
    path.write_text(dump(document), encoding="utf-8")  # type: ignore[arg-type]
    assert read(path) == document
