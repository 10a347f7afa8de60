"""What follows a relaxed token is what the target writes with the noise of the run, from just before
it and from just after it."""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from evaluation.plan.lane import Lane
from evaluation.plan.plan import Plan
from evaluation.report.files import markdown_of
from evaluation.report.measure import measure
from evaluation.study.follow import follow_tokens
from mars_core.counterfactual import (
    LEAST,
    Counterfactual,
    Ending,
    ending,
    kind_of_token,
    meets_after,
)
from mars_core.reference import choose
from mars_core.session import Session
from mars_core.types import DrafterConfig, DraftMode, RuleConfig, Trace
from mars_playground.__main__ import main as mars
from storage import RunStore
from tests.traces import make_trace
from tests.unit.evaluation.study.working import MARS, STRICT, small_plan, study_in

SAMPLED = DrafterConfig("model", None, 4, DraftMode.SAMPLED)
LANES = (
    STRICT,
    MARS,
    Lane(RuleConfig("strict"), SAMPLED),
    Lane(RuleConfig("mars", {"theta": 0.5}), SAMPLED),
)


def planned(session: Session) -> Plan:
    return small_plan(session, lanes=LANES, temperatures=(0.0, 1.0), batch=4, max_new_tokens=20)


@pytest.fixture(scope="module")
def done(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study_in(tmp_path_factory.mktemp("done"), planned(session), session)


@pytest.fixture
def url(done: Path, tmp_path: Path) -> str:
    """Of a copy in which nothing was followed."""
    return f"sqlite:///{shutil.copy(done, tmp_path)}"


@pytest.fixture
def study(store: RunStore) -> str:
    return store.studies()[0].id


@pytest.fixture(scope="module")
def followed(
    done: Path, session: Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunStore]:
    """With all continuations."""
    path = shutil.copy(done, tmp_path_factory.mktemp("followed"))
    with RunStore(f"sqlite:///{path}") as store:
        deque(follow_tokens(store, store.studies()[0].id, session, 3), maxlen=0)
        yield store


def by_hand(session: Session, run: Trace, start: int) -> tuple[list[int], list[float]]:
    """The ids of the text whose tokens before ``start`` are those of the run, and the ln p of all."""
    config, target = run.config, session.pair.target
    ids, logprobs = list(run.token_ids[:start]), []
    while len(ids) < config.max_new_tokens and not (ids and ids[-1] in session.pair.eos_ids):
        z = target(torch.tensor([[*run.prompt_ids, *ids]])).logits[0, -1].float()
        ids.append(choose(z, config.sampling.temperature, config.seed, len(ids)))
    z = target(torch.tensor([[*run.prompt_ids, *ids]])).logits[0].float().log_softmax(-1)
    first = len(run.prompt_ids) - 1
    logprobs = [float(z[first + at, id_]) for at, id_ in enumerate(ids)]
    return ids, logprobs


def check_meeting(found: Counterfactual, run: Trace, *texts: Sequence[int]) -> None:
    """``texts``: strict's and the relaxed one."""
    at, limit = found.position, run.config.max_new_tokens
    assert (found.strict_tokens, found.relaxed_tokens) == tuple(len(ids) - at for ids in texts)
    ends = (Ending(tuple(ids[at:]), (), len(ids) < limit, "") for ids in texts)
    assert found.meets_after == meets_after(*ends)


@torch.inference_mode()
def test_counterfactuals_are_those_of_the_target_alone(
    followed: RunStore, session: Session
) -> None:
    (head,) = followed.studies()
    run_ids = [run_id for row in followed.results(head.id) for run_id in row.run_ids]
    traces = followed.traces(run_ids)
    checked = Counter[DraftMode]()
    for run_id, tokens in followed.counterfactuals(run_ids).items():
        run = traces[run_id]
        relaxed = [token for token in run.tokens if token.outcome == "relaxed"]
        assert [token.position for token in tokens] == [token.position for token in relaxed]
        for token, found in zip(relaxed, tokens, strict=True):
            at = token.position
            (strict, strict_ln), (after, after_ln) = (
                by_hand(session, run, start) for start in (at, at + 1)
            )
            assert strict[at] == token.own and after[at] == token.id
            logprobs = found.strict_logprob, found.relaxed_logprob
            assert logprobs == pytest.approx((mean(strict_ln[at:]), mean(after_ln[at:])), abs=1e-4)
            check_meeting(found, run, strict, after)
            assert (found.r, found.gap) == (token.r, token.gap)
            checked[run.config.drafter.mode] += 1
    assert min(checked[DraftMode.COUPLED], checked[DraftMode.SAMPLED]) >= 10, checked


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_what_is_saved_is_not_decoded_again(
    store: RunStore, session: Session, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count() -> int:
        ids = [run_id for row in store.results(study) for run_id in row.run_ids]
        return sum(map(len, store.counterfactuals(ids).values()))

    runs = follow_tokens(store, study, session, 2, sample=1)
    assert len(list(islice(runs, 3))) == 3
    runs.close()
    some = count()
    *_, sampled = follow_tokens(store, study, session, 2, sample=1)
    assert some + sampled.tokens == count() and sampled.done == sampled.runs
    *_, rest = follow_tokens(store, study, session, 2)
    assert rest.tokens and sampled.runs == rest.runs
    monkeypatch.setattr(session.pair.target, "forward", None)
    *_, none = follow_tokens(store, study, session, 2)
    assert (none.tokens, none.done) == (0, rest.runs) and store.study(study)


def test_texts_are_graded_by_their_suite(followed: RunStore, session: Session) -> None:
    plan, (head,) = planned(session), followed.studies()
    graded = list[Counterfactual]()
    for row in followed.results(head.id):
        suite = plan.suites[plan.task(row.task).suite]
        for turn, run_id in enumerate(row.run_ids):
            for token in followed.counterfactuals([run_id]).get(run_id, ()):
                scored = bool(suite.metrics)
                assert (
                    math.isnan(token.strict_score) is math.isnan(token.relaxed_score) is not scored
                )
                assert token.changed is None or scored or turn == len(row.run_ids) - 1
                graded += [token] * scored
    assert graded and all(token.changed is not None for token in graded)


def test_a_report_has_shares_by_properties_of_the_tokens(
    followed: RunStore, session: Session
) -> None:
    (head,) = followed.studies()
    report, plan = measure(followed, head.id), planned(session)
    ids = {(row.task, row.lane): row.run_ids for row in followed.results(head.id)}
    for lane, temperature in ((1, 1.0), (3, 1.0)):
        of_lane = [
            (token, plan.task(task).item)
            for (task, number), runs in ids.items()
            if number == lane and plan.task(task).temperature == temperature
            for tokens in followed.counterfactuals(runs).values()
            for token in tokens
        ]
        rows = [
            row for row in report.followed if (row.lane, row.temperature) == (lane, temperature)
        ]
        every, tokens = rows[0], [token for token, _ in of_lane]
        met = [token.meets_after is not None for token in tokens]
        known = [token.changed for token in tokens if token.changed is not None]
        change = [token.relaxed_logprob - token.strict_logprob for token in tokens]
        assert (every.by, every.tokens) == ("", len(tokens))
        for interval, values in (
            (every.meets, met),
            (every.changed, known),
            (every.logprob, change),
        ):
            assert interval.value == pytest.approx(mean(values))
            assert interval.low <= interval.value <= interval.high
        for by in {row.by for row in rows} - {""}:
            amounts = [row.tokens for row in rows if row.by == by]
            assert sum(amounts) == len(of_lane) or by == "kind"
            assert min(amounts) >= 10 and len(amounts) <= 4
    assert "What follows a relaxed token" in markdown_of(report)


def test_the_command_follows_a_study(
    url: str,
    store: RunStore,
    session: Session,
    study: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("evaluation.study.launch.open_session", lambda *_: session)
    assert not measure(store, study).followed
    command = ["eval", "follow", study[:8], "--db", url, "--quiet"]
    assert mars([*command, "--sample", "1", "--batch", "2"]) == 0
    assert re.search(r"[1-9]\d* relaxed tokens were followed; 0 failed", capsys.readouterr().err)
    with monkeypatch.context() as patch:
        patch.setattr("evaluation.study.follow.ending", lambda *_: None)  # all continuations fail
        assert mars([*command, "--sample", "2"]) == 1
    assert re.search(r"0 relaxed tokens were followed; [1-9]\d* failed", capsys.readouterr().err)
    assert mars([*command, "--sample", "0"]) == 2
    assert "--sample is 0; it must be 1 or more" in capsys.readouterr().err


def test_a_continuation_that_rounding_changed_before_the_token_does_not_count() -> None:
    """It may have ended there."""
    run = make_trace(rule="mars", theta=0.3, new_tokens=12)
    first, *others = run.steps
    *tokens, last = first.tokens
    at = last.position + 2
    whole = ending(run, run, at)
    assert whole is not None and whole.ids == run.token_ids[at:]
    other = (replace(first, tokens=(*tokens, replace(last, id=-2))), *others)
    assert all(ending(run, replace(run, steps=steps), at) is None for steps in ((first,), other))


E = tuple(range(100, 100 + LEAST))


@pytest.mark.parametrize(
    ("one", "other", "ended", "after"),
    [
        ((1, 5, 6), (2, 5, 6), True, 1),
        ((1, 5, 6), (2, 3, 5, 6), True, 2),
        ((1, 4, 5, 6), (2, 3, 5, 6), True, None),  # two equal tokens are too few
        ((1, *E), (2, 3, *E), False, 2),
        ((1, *E, 7), (2, 3, *E), False, 2),  # cut
        ((1, *E, 7), (2, 3, *E), True, None),
        ((1, 2, *E), (2, *E), True, 1),  # the relaxed token leaves one out
        ((1,), (2, 3, 4), True, None),
    ],
)
def test_texts_meet_where_their_ends_are_equal(
    one: tuple[int, ...], other: tuple[int, ...], ended: bool, after: int | None
) -> None:
    endings = [Ending(ids, (), ended, "") for ids in (one, other)]
    assert meets_after(*endings) == meets_after(*reversed(endings)) == after


@pytest.mark.parametrize(
    ("before", "piece", "kind"),
    [
        ("", " 12", "number"),
        ("It is", " fine", "word"),
        ("", ".\n", "punctuation"),
        ("```py\n", " x", "code"),
        ("```py\nx\n```\n", "So", "word"),
    ],
)
def test_kinds_of_tokens(before: str, piece: str, kind: str) -> None:
    assert kind_of_token(before, piece) == kind
