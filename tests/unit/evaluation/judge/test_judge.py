"""An endpoint that answers, is busy, refuses, or is not there; a study judged in both orders, each
verdict requested once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from evaluation.item import Item, Suite
from evaluation.judge.study import KEY as KEY_NAME
from evaluation.judge.study import (
    MAX_FAILURES,
    MODEL,
    SAME,
    URL,
    Endpoint,
    JudgeProgress,
    Question,
    judge_study,
    read_judge,
)
from evaluation.plan.lane import Lane
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.served.server import Server, ServerError
from mars_core.types import ModelRef, RuleConfig, Trace
from storage import Preferred, RunStore
from tests.traces import make_trace
from tests.unit.evaluation import saved
from tests.unit.evaluation.calls import expect, mars
from tests.unit.evaluation.judge.server import KEY, JudgeRequest, Reply, serve

QUESTION = [{"role": "user", "content": "A or B?"}]


def test_the_question_goes_out_as_a_chat_completion_with_the_key() -> None:
    """Again after as long as the server says, and without a temperature where it refuses one."""
    wait, refused = Reply("wait", 429, (("retry-after", "7"),)), Reply("no 'temperature'", 400)
    replies, pauses = [Reply("no", 500), wait, refused, Reply("[[B]]")], list[float]()
    with (
        serve(lambda _body, number: replies[number]) as (url, requests),
        Endpoint(Server(url, "a-judge", KEY, role="judge"), sleep=pauses.append) as endpoint,
    ):
        assert endpoint.answer(QUESTION) == "[[B]]" and pauses == [1.0, 7.0]
    assert {each[:2] for each in requests} == {("/v1/chat/completions", f"Bearer {KEY}")}
    *bodies, again = (each.body for each in requests)
    assert bodies == [again | {"temperature": 0.0}] * 3
    assert again == {"model": "a-judge", "messages": QUESTION}


def test_without_a_key_there_is_no_judge() -> None:
    assert read_judge({}) is None
    assert read_judge({URL: "https://x/v1", MODEL: "m", KEY_NAME: " "}) is None
    settings = read_judge({URL: "https://x/v1", MODEL: "m", KEY_NAME: KEY}, model="n")
    assert settings == Server("https://x/v1", "n", KEY, role="judge")
    assert KEY not in repr(settings)


LANES = (*saved.LANES, Lane(RuleConfig("lenience"), saved.MODEL))
SUITE = Suite("talk", tuple(Item(str(at), (f"Question {at}",)) for at in range(3)))
PLAN = Plan("a study", Models("bundled", ModelRef("demo/target")), (SUITE,), LANES)
MARS, LENIENCE = 2, 3  # the second writes what strict writes


def answered(task: int, lane: int) -> list[Trace]:
    rule = ("none", "strict", "mars", "strict")[lane]
    return [make_trace(rule=rule, theta=0.5, new_tokens=20, seed=task, prompt=f"Question {task}")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The database of a study that nobody has judged, and the study's id."""
    path = tmp_path_factory.mktemp("judge") / "runs.db"
    with RunStore(f"sqlite:///{path}") as store:
        study_id = saved.save_study(store, PLAN, answered)
    return path, study_id


@pytest.fixture
def study(made: tuple[Path, str], tmp_path: Path) -> Iterator[tuple[RunStore, str]]:
    path, study_id = made
    shutil.copy(path, tmp_path / "runs.db")
    with RunStore(f"sqlite:///{tmp_path}/runs.db") as store:
        yield store, study_id


def judged(
    study: tuple[RunStore, str], judge: Callable[[dict[str, Any], int], Reply], **options: Any
) -> tuple[list[JudgeProgress], list[JudgeRequest]]:
    with (
        serve(judge) as (url, requests),
        Endpoint(Server(url, "a-judge", KEY, tries=1, role="judge")) as endpoint,
    ):
        return list(judge_study(*study, endpoint, **options)), requests


def first(_body: dict[str, Any], _number: int) -> Reply:
    """A judge who always likes the first answer best."""
    return Reply("Both are fine. [[B]]? No: [[ A ]]")


def test_both_orders_are_judged_and_equal_answers_are_ties(study: tuple[RunStore, str]) -> None:
    progress, requests = judged(study, first)
    stored = {(each.task, each.lane, each.swapped): each for each in study[0].judgements(study[1])}
    assert len({repr(body) for _, _, body in requests}) == len(requests) == 6 and progress[
        -1
    ] == JudgeProgress(12, judged=12)
    assert set(stored) == set(product(range(3), (MARS, LENIENCE), (False, True)))
    for (_, lane, swapped), each in stored.items():
        if lane == LENIENCE:
            expect(each, choice=Preferred.TIE, text=SAME)
        else:
            assert each.choice is (Preferred.BASELINE if swapped else Preferred.RULE)
            assert each.judge == "a-judge" and each.text.endswith("[[ A ]]")


def test_a_judging_goes_on_where_it_stopped(study: tuple[RunStore, str]) -> None:
    shy = lambda _body, number: Reply("[[C]]" if number < 2 else "I would rather not say.")  # noqa: E731
    progress, _ = judged(study, shy, parallel=1)
    expect(progress[-1], judged=8, unclear=4)
    progress, requests = judged(study, first, parallel=1)
    assert len(requests) == 4 and progress[0].judged == 8 and progress[-1].judged == 12
    assert not judged(study, first)[1]


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(("status", "code"), [(400, 1), (200, 0)])
def test_the_command_fails_where_a_question_did(
    status: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_NAME, KEY)
    reply = lambda _body, number: Reply("[[A]]", status if number == 1 else 200)  # noqa: E731
    with serve(reply) as (url, _):
        options = f"--url {url} --model a-judge --db sqlite:///{tmp_path}/runs.db"
        assert mars(f"eval judge latest {options}") == code


def test_who_stops_a_judging_waits_for_no_answer(
    study: tuple[RunStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, stopped, waited = count(), Event(), []

    def slow(*_: object) -> str:
        if next(numbers):
            waited.append(stopped.wait(30))
        return "[[A]]"

    others = {*threading.enumerate()}
    monkeypatch.setattr(Endpoint, "answer", slow)
    with Endpoint(Server("http://localhost:1", "a-judge", KEY, role="judge")) as endpoint:
        judging = judge_study(*study, endpoint, parallel=2)
        assert [next(judging).judged for _ in range(2)] == [6, 7]
        judging.close()
        assert not waited
        stopped.set()
        for thread in {*threading.enumerate()} - others:
            thread.join(30)
        assert next(numbers) < 5  # no question was begun after it


def test_an_endpoint_that_is_gone_ends_the_judging(study: tuple[RunStore, str]) -> None:
    requests = 0

    def refuse(_body: dict[str, Any], number: int) -> Reply:
        nonlocal requests
        requests = number + 1
        return Reply("no", 401)

    with pytest.raises(ServerError, match="answered 401"):
        judged(study, refuse, parallel=1)
    assert MAX_FAILURES <= requests <= 6
    assert len(study[0].judgements(study[1])) == 6  # the ties, which need no request


def test_a_question_shows_all_turns_and_the_reference_and_says_nothing_of_rules() -> None:
    item = Item("1", ("What is 2 + 2?", "Sure?"), ("4",))
    for swapped in (False, True):
        answers = ("Four. [[A]]", "Yes."), ("Five.", "No.")
        system, user = Question(0, 0, item, *answers, swapped).messages
        text = user["content"]
        assert (text.index("Five.") < text.index("Four.")) is swapped
        assert text.index("Reference") < text.index("Assistant A") < text.index("Assistant B")
        assert text.count("Sure?") == 2 and "reference answer is given" in system["content"]
        assert (
            "mars" not in (system["content"] + text).lower()
            and "strict" not in (system["content"] + text).lower()
        )
