"""Finding: every comparison that fits and no other, in the requested order, page by page, whatever
is typed; by indexes, not by reading."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mars_core.types import ModelRef, PromptConfig, Status, Trace
from storage import FilterChoices, RunStore, Search, Sort, Source
from tests.traces import make_trace
from tests.unit.storage.exports import as_stored, failing, save
from tests.unit.storage.test_comparisons import fill, plans_of, statements
from tests.unit.storage.test_roundtrip import ANY_TEXT, HOSTILE, hostile_trace


def matches(store: RunStore, **criteria: object) -> list[str]:
    """The ids, which must be as many as the total says."""
    result = store.find(Search(**criteria))  # type: ignore[arg-type]
    ids: list[str] = result.frame["id"].tolist()
    assert (result.total, result.more) == (len(ids), False)
    assert store.matching_ids(Search(**criteria)) == ids  # type: ignore[arg-type]
    return ids


def found(part: str, text: str) -> bool:
    return as_stored(part).casefold() in as_stored(text).casefold()


def named(store: RunStore, *names: str) -> list[str]:
    ids = [store.new_comparison(PromptConfig("p")) for _ in names]
    for comparison_id, name in zip(ids, names, strict=True):
        store.annotate(comparison_id, name=name)
    return ids


def with_summary(trace: Trace, **numbers: float) -> Trace:
    return replace(trace, summary=replace(trace.summary, **numbers))  # type: ignore[arg-type]


def test_no_match_gives_an_empty_frame(store: RunStore) -> None:
    for wanted in (Search(), Search(text="x", rule="mars", tag="t", sort=Sort.TAU)):
        result = store.find(wanted)
        assert (result.total, list(result.frame.columns[:2])) == (0, ["id", "created_at"])
        assert str(result.frame["created_at"].dtype) == "datetime64[us, UTC]"
    assert store.choices() == FilterChoices((), (), ())


def test_text_is_found_in_prompt_name_comment_and_tags(store: RunStore) -> None:
    ids = [
        store.new_comparison(PromptConfig(prompt, system="needle"))
        for prompt in ("a Needle", *"bcd")
    ]
    store.annotate(ids[1], name="NEEDLE two")
    store.annotate(ids[2], comment="the needle")
    store.annotate(ids[3], tags=["x", "needles"])
    assert matches(store, text="nEEdle") == ids[::-1]
    store.annotate(ids[1], name="no more")
    assert matches(store, text="needle") == [ids[3], ids[2], ids[0]]
    assert matches(store, text="a needle") == [ids[0]]
    assert matches(store, text="x") == [ids[3]]


def test_no_text_is_found_across_the_border_of_two(store: RunStore) -> None:
    comparison_id = store.new_comparison(PromptConfig("one"))
    store.annotate(comparison_id, name="two", comment="three", tags=["four", "five"])
    across = "onetwo|one two|one\ntwo|onezthree|onez|zz|fourfive|0000|241b"
    assert [text for text in across.split("|") if matches(store, text=text)] == []


def test_a_text_is_found_where_it_stands_and_nowhere_else(store: RunStore) -> None:
    """Signs mean themselves, case is no matter in any script, one character is enough, and hostile
    texts run nothing."""
    signs = ("%", "_", "*", "?", "\\", "[a]", "'", '"', "␛", "Z", "Y")
    words = (
        "STRASSE",
        "Ωmega",
        "naïve ÉTÉ",
        "日本",
        "İ",
        "ς",
        "100 sure",
        "zq1 xzq1x qy",
        "a",
        "é\x00%" * 3_000 + "!",
    )
    hostile = [text for text in HOSTILE if text == as_stored(text) and text]
    ids = {text: save(store, hostile_trace(text)) for text in hostile}
    ids |= {
        text: store.new_comparison(PromptConfig(text))
        for text in (*words, *(f"100{sign} sure" for sign in signs))
    }
    texts = (
        "straße",
        "ωMEGA",
        "été",
        "Σ",
        "zq",
        "ZQ1",
        "qy",
        "é\x00%" * 3_000 + "?",
        *signs,
        *(f"0{sign} S" for sign in signs),
    )
    for each in (*ids, *texts):
        assert (
            matches(store, text=each)
            == [id_ for text, id_ in ids.items() if found(each, text)][::-1]
        ), each
    for text in hostile:
        assert store.matching_ids(Search(target=text)) == [ids[text]]
        assert store.matching_ids(Search(tag=text)) == store.matching_ids(Search(rule=text)) == []
    assert store.choices().targets == tuple(sorted(hostile))


def test_each_filter_is_of_any_run(store: RunStore) -> None:
    plain, strict, mars = (
        make_trace(rule=rule, new_tokens=3) for rule in ("none", "strict", "mars")
    )
    failed = make_trace(new_tokens=0, status=Status.FAILED)
    other = replace(mars, config=replace(mars.config, target=ModelRef("org/other")))
    ids = [save(store, plain, strict), save(store, strict, failed), save(store, other, plain)]
    empty = store.new_comparison(PromptConfig("no runs"))
    assert matches(store, rule="none") == [ids[2], ids[0]]
    assert matches(store, rule="strict") == [ids[1], ids[0]]
    assert matches(store, rule="mars") == matches(store, target="org/other") == [ids[2]]
    assert matches(store, rule="mar") == matches(store, rule="MARS") == []
    store.annotate(ids[0], tags=["a", "b"])
    store.annotate(ids[1], tags=["ab", 'x","a'])
    assert matches(store, tag="a") == [ids[0]]
    assert matches(store, target="demo/target") == ids[::-1]
    assert matches(store, status=Status.FAILED) == [ids[1]]
    assert matches(store, status=Status.COMPLETED, rule="none", target="org/other") == [ids[2]]
    assert matches(store) == [empty, *ids[::-1]]
    assert store.choices() == FilterChoices(
        ("mars", "none", "strict"), ("demo/target", "org/other"), ("a", "ab", "b", 'x","a')
    )


def test_times_and_sources(store: RunStore) -> None:
    ids = fill(store, 5)  # a second apart
    times = [store.load(comparison_id).created_at for comparison_id in ids]
    assert matches(store, since=times[2]) == ids[:1:-1]
    assert matches(store, until=times[2]) == ids[1::-1]
    assert matches(store, since=times[1], until=times[3] + timedelta(microseconds=1)) == ids[3:0:-1]
    others = [source for source in Source if source is not Source.COMPARE]
    made = {source: store.new_comparison(PromptConfig("p"), source=source) for source in others}
    assert all(matches(store, source=source) == [id_] for source, id_ in made.items())
    single = [made[Source.SERVER], made[Source.VOTE], *ids[::-1]]
    assert matches(store, without_batches=True) == single


def test_names_are_sorted_without_case_and_nameless_come_last(store: RunStore) -> None:
    beta, nameless, alpha, accent, gamma = named(store, "beta", "", "Alpha", "éta", "GAMMA")
    assert matches(store, sort=Sort.NAME, descending=False) == [
        alpha,
        beta,
        gamma,
        accent,
        nameless,
    ]
    assert matches(store, sort=Sort.NAME) == [accent, gamma, beta, alpha, nameless]


def test_the_best_run_counts_and_what_has_no_number_comes_last(store: RunStore) -> None:
    trace, sorts = make_trace(new_tokens=2), (Sort.TOKENS_PER_S, Sort.TAU, Sort.NEW_TOKENS)

    def saved(*numbers: float) -> str:
        worst = {Sort.NEW_TOKENS: 0}  # a whole number cannot be nan
        values = (
            {
                sort.value: worst.get(sort, number) if math.isnan(number) else number
                for sort in sorts
            }
            for number in numbers
        )
        return save(store, *(with_summary(trace, **each) for each in values))

    low, high, middle = saved(1, 2), saved(9, math.nan, 3), saved(4, 1, 5)
    empty = store.new_comparison(PromptConfig("no runs"))
    for sort in sorts:
        assert matches(store, sort=sort) == [high, middle, low, empty]
        assert matches(store, sort=sort, descending=False) == [low, middle, high, empty]


def test_pages_join_to_the_full_list(store: RunStore) -> None:
    ids = fill(store, 25)
    for sort, descending in product(Sort, (True, False)):
        wanted = Search(sort=sort, descending=descending, limit=10)
        pages = [store.find(replace(wanted, offset=at)) for at in (0, 10, 20, 30)]
        assert [(page.total, len(page.frame)) for page in pages] == [
            (25, length) for length in (10, 10, 5, 0)
        ]
        oldest_first = sort is Sort.CREATED and not descending  # whatever is equal is latest first
        joined = pd.concat([page.frame for page in pages])["id"].tolist()
        assert joined == (ids if oldest_first else ids[::-1])
    for limit, offset in ((-1, 0), (5, -1)):
        with failing("must be 0 or more"):
            store.find(Search(limit=limit, offset=offset))


@settings(max_examples=40)
@example(text="\uffff", start=0, length=1, other="")
@example(text='"""', start=0, length=3, other="")
@example(text="a", start=0, length=1, other="A")
@example(
    text="\udddd\ud800", start=0, length=1, other="\uddd8"
)  # whose four letters are there, out of step
@given(text=ANY_TEXT, start=st.integers(0, 40), length=st.integers(1, 40), other=ANY_TEXT)
def test_exactly_every_part_of_a_text_is_found(
    lasting_store: RunStore, text: str, start: int, length: int, other: str
) -> None:
    comparison_id = lasting_store.new_comparison(PromptConfig(text))
    for part in filter(None, (text[start : start + length], other)):
        there = comparison_id in matches(lasting_store, text=part, limit=1000)
        assert there == found(part, text)
    lasting_store.delete(comparison_id)


def test_more_than_are_counted_are_reported_as_more(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.runs.search.COUNTED", 2)
    ids = [store.new_comparison(PromptConfig(f"needle {number}")) for number in range(4)]
    result = store.find(Search(text="needle", limit=3))
    assert (result.total, result.more, result.frame["id"].tolist()) == (2, True, ids[:0:-1])
    result = store.find(Search(text="needle 1"))
    assert (result.total, result.more) == (1, False)


def test_what_changes_a_comparison_changes_what_finds_it(store: RunStore) -> None:
    strict, mars = make_trace(new_tokens=3), make_trace(rule="mars", new_tokens=3)
    comparison_id = save(store, with_summary(strict, tau=2.0))
    other = save(store, with_summary(strict, tau=3.0))

    def finds(sorted_: list[str], of_mars: list[str]) -> bool:
        rules = ("mars", "strict") if of_mars else ("strict",)
        assert store.choices().rules == rules
        return (matches(store, sort=Sort.TAU), matches(store, rule="mars")) == (sorted_, of_mars)

    assert finds([other, comparison_id], [])
    store.save_run(comparison_id, with_summary(mars, tau=4.0), lane=1, order=1)
    assert finds([comparison_id, other], [comparison_id])
    store.delete(comparison_id)
    assert finds([other], [])
    store.restore(comparison_id)
    assert finds([comparison_id, other], [comparison_id])
    store.purge(datetime.now(UTC))
    assert store.counts().runs == 3


def test_five_thousand_comparisons_are_found_in_few_statements(sqlite_store: RunStore) -> None:
    ids = fill(sqlite_store, 5000)
    sqlite_store.annotate(ids[7], name="the one", tags=["t"])
    search = Search(
        text="ONE",
        rule="mars",
        target="demo/target",
        status=Status.COMPLETED,
        tag="t",
        sort=Sort.TAU,
    )
    for each, total in ((Search(offset=4900), 5000), (search, 1)):
        with statements() as executed:
            result = sqlite_store.find(each)
        assert result.total == total and not result.more
        assert len(executed) == 4
        assert not any("run_traces" in statement for statement in executed)


def test_lists_are_read_in_the_order_of_an_index(sqlite_store: RunStore) -> None:
    """Of everything and of one owner, in both directions: no TEMP B-TREE, for it stops at the end
    of the page."""
    fill(sqlite_store, 50)
    anna = sqlite_store.of("anna")
    covering = "comparisons USING COVERING INDEX ix_comparisons_by_"
    for store, step in (
        (sqlite_store, f"SCAN {covering}created_at"),
        (anna, f"SEARCH {covering}owner (owner=?)"),
    ):
        for descending in (True, False):
            wanted = Search(without_batches=True, descending=descending)
            every, page, *frame = plans_of(store, partial(store.find, wanted))
            assert page == every == [step]
            assert not frame or frame[1][0].startswith("SEARCH runs USING INDEX")
        for sort in set(Sort) - {Sort.CREATED}:
            named = sort is Sort.NAME
            wanted = Search(sort=sort, descending=not named)
            _, page, *_ = plans_of(store, partial(store.find, wanted))
            rest = ["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"] if named else []
            assert page == [f"SCAN {covering}{'name_key' if named else sort}", *rest]


def test_few_and_choices_are_looked_up(sqlite_store: RunStore) -> None:
    fill(sqlite_store, 50)
    wanted = {"rule": "x", "target": "x", "status": Status.FAILED, "tag": "t"}
    for name, value in wanted.items():
        search = Search(**{name: value})  # type: ignore[arg-type]
        counted, *_ = plans_of(sqlite_store, partial(sqlite_store.find, search))
        assert any("ix_facets_by_value" in step or "ix_facets_by_owner" in step for step in counted)
        assert not any(step.startswith("SCAN comparisons") for step in counted)
    indexes = {None: "ix_facets_by_value (kind=?", "anna": "ix_facets_by_owner (owner=?"}
    for owner, index in indexes.items():
        for plan in plans_of(sqlite_store, sqlite_store.of(owner).choices):
            looked = [step for step in plan if "facets" in step]
            assert len(looked) == 2
            assert all(step.startswith("SEARCH facets") and index in step for step in looked)
