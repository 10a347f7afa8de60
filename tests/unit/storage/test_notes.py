"""Notes have limits; beyond them nothing of a comparison changes."""

from __future__ import annotations

import pytest

from mars_core.types import PromptConfig
from storage import RunStore, StorageError, StoredComparison


def notes(comparison: StoredComparison) -> tuple[str, tuple[str, ...], str]:
    return comparison.name, comparison.tags, comparison.comment


@pytest.mark.parametrize(
    ("what", "most"), [("name", "200"), ("tag", "40"), ("tags", "20"), ("comment", "10,000")]
)
def test_too_long_notes_are_refused_and_change_nothing(
    store: RunStore, what: str, most: str
) -> None:
    comparison_id = store.new_comparison(PromptConfig("x"))
    longest = {"name": "n" * 200, "tags": [f"{n:040}" for n in range(20)], "comment": "c" * 10_000}
    store.annotate(comparison_id, **longest)  # type: ignore[arg-type]
    before = notes(store.load(comparison_id))
    longer = {
        "name": "n" * 201,
        "tag": ["t" * 41],
        "tags": ["t", *longest["tags"]],
        "comment": "c" * 10_001,
    }
    with pytest.raises(StorageError, match=f"may have {most} .*at most, not"):
        store.annotate(comparison_id, **{"tags" if what == "tag" else what: longer[what]})  # type: ignore[arg-type]
    assert notes(store.load(comparison_id)) == before
