"""Name, tags and comment are stored as every text, within their limits; and nothing else of a comparison
changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_core.types import PromptConfig
from storage import RunStore, Search, StorageError, StoredComparison
from tests.unit.storage.exports import as_stored
from tests.unit.storage.test_roundtrip import ANY_TEXT, with_hostile


def notes(comparison: StoredComparison) -> tuple[str, tuple[str, ...], str]:
    return comparison.name, comparison.tags, comparison.comment


@settings(max_examples=40)
@with_hostile(tags=("\x00", "\ud800"))
@given(text=ANY_TEXT, tags=st.lists(ANY_TEXT, max_size=19))
def test_any_notes_are_stored(lasting_store: RunStore, text: str, tags: Sequence[str]) -> None:
    comparison_id = lasting_store.new_comparison(PromptConfig("x"))
    lasting_store.annotate(comparison_id, name=text, tags=[*tags, text], comment=text)
    text, given_tags = as_stored(text), as_stored([*tags, text])
    expected = tuple(sorted({tag.strip() for tag in given_tags} - {""}))
    assert notes(lasting_store.load(comparison_id)) == (text.strip(), expected, text)
    assert set(expected) <= {*lasting_store.choices().tags}
    assert comparison_id in lasting_store.matching_ids(
        Search(tag=text.strip(), text=text, limit=1000)
    )


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
