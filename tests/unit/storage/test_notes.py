"""Name, tags and comment are kept exactly, within their limits; and nothing else of a comparison changes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mars_core.types import PromptConfig
from storage import RunStore, Search, Source, StorageError, StoredComparison
from tests.traces import make_trace
from tests.unit.storage.exports import parsed, runs_csv, save
from tests.unit.storage.test_roundtrip import ANY_TEXT, HOSTILE


def notes(comparison: StoredComparison) -> tuple[str, tuple[str, ...], str]:
    return comparison.name, comparison.tags, comparison.comment


def test_new_comparison_has_none(store: RunStore) -> None:
    loaded = store.load(store.new_comparison(PromptConfig("x")))
    assert (notes(loaded), loaded.source, loaded.sweep_id) == (("", (), ""), Source.COMPARE, None)


def test_what_is_not_given_is_left(store: RunStore) -> None:
    comparison_id = store.new_comparison(PromptConfig("x"))
    store.annotate(comparison_id, name=" A name ", tags=["b", " a ", "b", "", "  ", "B"], comment="Why?\n")
    assert notes(store.load(comparison_id)) == ("A name", ("B", "a", "b"), "Why?\n")
    store.annotate(comparison_id, comment="")
    assert notes(store.load(comparison_id)) == ("A name", ("B", "a", "b"), "")
    store.annotate(comparison_id, name="", tags=[])
    assert notes(store.load(comparison_id)) == ("", (), "")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_notes_are_kept(store: RunStore, text: str) -> None:
    comparison_id = store.new_comparison(PromptConfig(text))
    store.annotate(comparison_id, name=text, tags=[text], comment=text)
    stripped = text.strip()
    expected = (stripped, (stripped,) if stripped else (), text)
    assert notes(store.load(comparison_id)) == expected
    frame = store.find(Search(tag=stripped, text=text)).frame
    assert frame["tags"].tolist() == [expected[1]]
    assert store.choices().tags == expected[1]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=ANY_TEXT, tags=st.lists(ANY_TEXT, max_size=20), comment=ANY_TEXT)
def test_any_notes_are_kept(store: RunStore, name: str, tags: list[str], comment: str) -> None:
    comparison_id = store.new_comparison(PromptConfig("x"))
    store.annotate(comparison_id, name=name, tags=tags, comment=comment)
    expected = tuple(sorted({tag.strip() for tag in tags} - {""}))
    assert notes(store.load(comparison_id)) == (name.strip(), expected, comment)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "n" * 201}, "A name may have 200 characters at most, not 201."),
        ({"tags": ["t" * 41]}, "A tag may have 40 characters at most, not 41."),
        ({"tags": [str(n) for n in range(21)]}, "A comparison may have 20 tags at most, not 21."),
        ({"comment": "c" * 10_001}, "A comment may have 10,000 characters at most, not 10,001."),
    ],
)
def test_too_long_is_said_and_changes_nothing(store: RunStore, change: dict[str, object], message: str) -> None:
    comparison_id = store.new_comparison(PromptConfig("x"))
    longest = {"name": "n" * 200, "tags": [f"{n:040}" for n in range(20)], "comment": "c" * 10_000}
    store.annotate(comparison_id, **longest)  # type: ignore[arg-type]
    before = notes(store.load(comparison_id))
    with pytest.raises(StorageError) as caught:
        store.annotate(comparison_id, **({"name": "new"} | change))  # type: ignore[arg-type]
    assert str(caught.value) == message
    assert notes(store.load(comparison_id)) == before == ("n" * 200, tuple(longest["tags"]), "c" * 10_000)


def test_notes_are_in_the_csv_and_no_formula(sqlite_store: RunStore) -> None:
    comparison_id = save(sqlite_store, make_trace(new_tokens=2))
    sqlite_store.annotate(comparison_id, name="=1+1", tags=["=2", "b"], comment="@x")
    (row,) = parsed(runs_csv(sqlite_store))
    assert [row[name] for name in ("name", "tags", "comment", "source", "sweep_id")] == [
        "'=1+1", '["=2", "b"]', "'@x", "compare", "",
    ]  # fmt: skip
