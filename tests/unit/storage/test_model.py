"""Whatever two owners do with comparisons, in any order: lists, searches, votes, counts and exports
say what a plain model of it says."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from mars_core.types import SERVER, ModelRef, PromptConfig, RuleConfig, Status, Trace
from storage import Choice, RunStore, Search, Sort, Source
from storage.runs.records import rule_label
from tests.traces import make_trace, same
from tests.unit.storage.exports import failing, replaced

EARLIER, LATER = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))
WHO, PICK = st.integers(0, 1), st.integers(0, 99)
TEXTS = st.sampled_from(["", "Apple", "apple pie", "ÉTÉ", "a", "日本"])
SERVERS = ("http://x/v1", "http://y/v1")
KINDS = st.sampled_from(["none", "strict", "mars", "failed", *SERVERS])
TAGS = st.sampled_from(["t", "T", "apple", "été"])
NOTES = st.fixed_dictionaries(
    {}, optional={"name": TEXTS, "tags": st.lists(TAGS), "comment": TEXTS}
)


@cache
def trace_of(kind: str, prompt: str) -> Trace:
    status = Status.FAILED if kind == "failed" else Status.COMPLETED
    name = kind if kind in ("none", "mars") else "strict"
    trace = make_trace(rule=name, new_tokens=3, status=status, prompt=PromptConfig(prompt))
    if kind not in SERVERS:
        return trace
    target, environment = ModelRef("org/other"), {SERVER: kind}
    return replaced(trace, rule=RuleConfig(SERVER), target=target, environment=environment)


@dataclass
class Known:
    """``runs``: lane, id and trace, in the order of execution; ``vote``: id, choice, the ids of
    both runs, comment."""

    owner: int
    prompt: str
    source: Source
    name: str = ""
    tags: tuple[str, ...] = ()
    comment: str = ""
    deleted: bool = False
    runs: list[tuple[int, str, Trace]] = field(default_factory=list)
    vote: tuple[Any, ...] = ()

    def fits(self, search: Search) -> bool:
        texts = (self.prompt, self.name, self.comment, *self.tags)
        values = [
            {"rule": t.config.rule.name, "target": t.config.target.name, "status": t.status}
            for _, _, t in self.runs
        ]
        wanted = {name: getattr(search, name) for name in ("rule", "target", "status")}
        return (
            any(search.text.casefold() in text.casefold() for text in texts)
            and search.source in (None, self.source)
            and search.tag in ("", *self.tags)
            and not (search.without_batches and self.source is Source.STUDY)
            and all(
                not value or value in [each[name] for each in values]
                for name, value in wanted.items()
            )
        )

    def last(self, lane: int) -> str | None:
        return next((id_ for at, id_, _ in reversed(self.runs) if at == lane), None)


def allowed(known: Known) -> AbstractContextManager[object]:
    """A deleted one does not exist."""
    return failing("There is no comparison") if known.deleted else nullcontext()


class Owners(RuleBasedStateMachine):
    def __init__(self, store: RunStore) -> None:
        super().__init__()
        self.store, self.names = store, [uuid.uuid4().hex for _ in range(2)]
        self.known: dict[str, Known] = {}  # in the order in which they were made

    def of(self, who: int) -> RunStore:
        return self.store.of(self.names[who])

    def picked(self, pick: int) -> tuple[str, Known, RunStore]:
        if not self.known:
            self.make("a", 0, Source.VOTE)
        id_ = [*self.known][pick % len(self.known)]
        return id_, self.known[id_], self.of(self.known[id_].owner)

    def owned(self, who: int, *, deleted: bool = False) -> dict[str, Known]:
        wanted = (who, deleted)
        return {i: each for i, each in self.known.items() if (each.owner, each.deleted) == wanted}

    @rule(text=TEXTS, who=WHO, source=st.sampled_from(Source))
    def make(self, text: str, who: int, source: Source) -> None:
        id_ = self.of(who).new_comparison(PromptConfig(text), source=source)
        self.known[id_] = Known(who, text, source)

    @rule(pick=PICK, lane=WHO, kind=KINDS)
    def run(self, pick: int, lane: int, kind: str) -> None:
        id_, known, store = self.picked(pick)
        trace = trace_of(kind, known.prompt)
        with allowed(known):
            run_id = store.save_run(id_, trace, lane=lane, order=len(known.runs))
            known.runs.append((lane, run_id, trace))

    @rule(pick=PICK, notes=NOTES)
    def annotate(self, pick: int, notes: dict[str, Any]) -> None:
        id_, known, store = self.picked(pick)
        with allowed(known):
            store.annotate(id_, **notes)
            for name, value in notes.items():
                setattr(known, name, tuple(sorted({*value})) if name == "tags" else value)

    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        id_, known, store = self.picked(pick)
        with allowed(known):
            store.delete(id_)
            known.deleted = True

    @rule(pick=PICK)
    def restore(self, pick: int) -> None:
        id_, known, store = self.picked(pick)
        store.restore(id_)
        known.deleted = False

    @rule(who=WHO)
    def purge(self, who: int) -> None:
        gone = self.owned(who, deleted=True)
        assert self.of(who).purge(EARLIER) == 0
        assert self.of(who).purge(LATER) == len(gone)
        for id_ in gone:
            del self.known[id_]
            with failing("There is no comparison"):
                self.of(who).restore(id_)

    @rule(who=WHO)
    def give(self, who: int) -> None:
        moved = [each for each in self.known.values() if each.owner == who]
        assert self.store.give(self.names[who], self.names[1 - who]) == len(moved)
        for each in moved:
            each.owner = 1 - who

    @rule(pick=PICK, left=WHO, right=WHO, choice=st.sampled_from(Choice), comment=TEXTS)
    def vote(self, pick: int, left: int, right: int, choice: Choice, comment: str) -> None:
        id_, known, store = self.picked(pick)
        sides = known.last(left), known.last(right)
        refused = known.deleted or left == right or known.vote or None in sides
        with failing("no comparison|The vote was not saved: ") if refused else nullcontext():
            vote = store.add_vote(id_, left_lane=left, right_lane=right, choice=choice)
            store.comment_vote(vote, comment)
            known.vote = (vote, choice, *sides, comment)

    @rule(pick=PICK)
    def load(self, pick: int) -> None:
        id_, known, store = self.picked(pick)
        with allowed(known):
            loaded = store.load(id_)
            for name in ("name", "tags", "comment", "source"):
                assert getattr(loaded, name) == getattr(known, name)
            first = {lane: (run, trace) for lane, run, trace in reversed(known.runs)}
            assert [each.lane for each in loaded.runs] == sorted(first)
            for each in loaded.runs:
                assert each.id == first[each.lane][0] and same(each.trace, first[each.lane][1])
            assert len(loaded.runs) + len(loaded.repeats) == len(known.runs)

    @rule(
        who=WHO,
        sort=st.sampled_from([Sort.CREATED, Sort.NAME]),
        page=st.tuples(st.sampled_from([1, 2, 50]), st.sampled_from([0, 1])),
        since=st.none() | PICK,
        until=st.none() | PICK,
        more=st.fixed_dictionaries(
            {"descending": st.booleans()},
            optional={
                "text": TEXTS,
                "rule": st.sampled_from(["none", "strict", "mars", "mar"]),
                "target": st.sampled_from(["demo/target", "org/other"]),
                "status": st.sampled_from([Status.COMPLETED, Status.FAILED]),
                "source": st.sampled_from(Source),
                "without_batches": st.booleans(),
                "tag": TAGS,
            },
        ),
    )
    def find(
        self,
        who: int,
        sort: Sort,
        page: tuple[int, int],
        since: int | None,
        until: int | None,
        more: dict[str, Any],
    ) -> None:
        live, (limit, offset) = self.owned(who), page
        for name, pick in (("since", since), ("until", until)):
            if pick is not None and live:
                of_pick = [*live][pick % len(live)]
                more = more | {name: self.of(who).load(of_pick).created_at}
                at = [*live].index(of_pick)
                kept = [*live][at:] if name == "since" else [*live][:at]
                live = {id_: live[id_] for id_ in kept}
        search = Search(sort=sort, limit=limit, offset=offset, **more)
        wanted = [id_ for id_, known in live.items() if known.fits(search)]
        if sort is Sort.NAME or search.descending:
            wanted.reverse()
        if sort is Sort.NAME:
            named = [id_ for id_ in wanted if live[id_].name]
            named.sort(key=lambda i: live[i].name.encode().lower(), reverse=search.descending)
            wanted = [*named, *(id_ for id_ in wanted if not live[id_].name)]
        found = self.of(who).find(search)
        assert (found.total, found.more) == (len(wanted), False)
        assert [row["id"] for row in found.rows] == wanted[offset : offset + limit]

    @rule(who=WHO)
    def tell(self, who: int) -> None:
        store, live = self.of(who), self.owned(who)
        told = {each.id: each for each in store.votes()}
        assert [*told] == sorted(told, key=lambda id_: told[id_].created_at, reverse=True)
        votes = [each.vote for each in live.values() if each.vote]
        assert {
            (each.id, each.choice, each.left_run, each.right_run, each.comment)
            for each in told.values()
        } == {*votes}
        counted: Counter[Any] = Counter()
        for each in live.values():
            lanes = sorted(each.runs, key=lambda run: run[0])
            labels = {id_: label(trace) for _, id_, trace in lanes}
            if each.vote:
                counted[labels[each.vote[2]], labels[each.vote[3]], each.vote[1]] += 1
            elif (
                (each.source, [lane for lane, *_ in lanes]) == (Source.VOTE, [0, 1])
                and len({trace.text for *_, trace in lanes}) == 1
                and {trace.status for *_, trace in lanes} == {Status.COMPLETED}
            ):
                counted[*labels.values(), None] += 1
        assert {astuple(each)[:3]: each.count for each in store.vote_counts()} == counted
        runs = [trace for each in live.values() for *_, trace in each.runs]
        assert astuple(store.choices()) == (
            tuple(sorted({trace.config.rule.name for trace in runs})),
            tuple(sorted({trace.config.target.name for trace in runs})),
            tuple(sorted({tag for each in live.values() for tag in each.tags})),
        )
        counts, gone = store.counts(), self.owned(who, deleted=True)
        counted_here = (counts.comparisons, counts.runs, counts.deleted, counts.votes)
        assert counted_here == (len(live), len(runs), len(gone), len(votes))


def label(trace: Trace) -> str:
    """Of a server's run the model and the address."""
    if trace.config.rule.name == SERVER:
        return f"server(model=org/other, url={trace.config.environment[SERVER]})"
    return rule_label(trace.config.rule.name, trace.config.rule.parameters)


def test_whatever_owners_do_their_lists_say(lasting_store: RunStore) -> None:
    """A failure is not made shorter, which would take minutes."""
    some = settings(max_examples=10, stateful_step_count=40, phases=[Phase.generate])
    run_state_machine_as_test(lambda: Owners(lasting_store), settings=some)  # type: ignore[no-untyped-call]
