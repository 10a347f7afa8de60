"""An endpoint that answers, is busy, refuses, or is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evaluation.judge.study import KEY as KEY_NAME
from evaluation.judge.study import MODEL, URL, Endpoint, Settings, read_settings
from evaluation.served.client import ServerError
from tests.unit.evaluation.judge.server import KEY, Asked, Reply, serve

QUESTION = [{"role": "user", "content": "A or B?"}]


def ask(replies: Sequence[Reply], **settings: Any) -> tuple[str, list[Asked], list[float]]:
    pauses: list[float] = []
    with (
        serve(lambda _body, number: replies[number]) as (url, asked),
        Endpoint(Settings(url, "a-judge", KEY, **settings), sleep=pauses.append) as endpoint,
    ):
        return endpoint.ask(QUESTION), asked, pauses


def test_the_question_goes_out_as_a_chat_completion_with_the_key() -> None:
    answer, asked, pauses = ask([Reply("[[B]]")])
    assert answer == "[[B]]" and not pauses
    (path, authorization, body) = asked[0]
    assert (path, authorization) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert body == {"model": "a-judge", "messages": QUESTION, "temperature": 0.0}


def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    busy = [Reply("no", 500), Reply("wait", 429, (("retry-after", "7"),)), Reply("no", 503)]
    answer, asked, pauses = ask([*busy, Reply("[[A]]")])
    assert answer == "[[A]]" and len(asked) == 4
    assert pauses == [1.0, 7.0, 4.0]


def test_a_model_that_takes_no_temperature_gets_none() -> None:
    _, asked, _ = ask([Reply("'temperature' does not support 0", 400), Reply("[[C]]")])
    assert "temperature" not in asked[1].body


@pytest.mark.parametrize(("status", "tries"), [(401, 1), (404, 1), (429, 3)])
def test_a_refusal_is_one_sentence_without_the_key(status: int, tries: int) -> None:
    with (
        serve(lambda _body, _number: Reply(f"bad key {KEY}\nsorry " * 40, status)) as (url, asked),
        Endpoint(Settings(url, "a-judge", KEY, tries=3), sleep=lambda _: None) as endpoint,
        pytest.raises(ServerError, match=f"The judge a-judge answered {status}: bad key … sorry") as refused,
    ):
        endpoint.ask(QUESTION)
    assert len(asked) == tries
    assert KEY not in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_nobody_there_and_nonsense_are_told() -> None:
    with (
        Endpoint(Settings("http://127.0.0.1:9", "a-judge", KEY, tries=2), sleep=lambda _: None) as endpoint,
        pytest.raises(ServerError, match="did not answer"),
    ):
        endpoint.ask(QUESTION)
    with (
        serve(lambda _body, _number: Reply("<html>", 200 + 3)) as (url, _),
        Endpoint(Settings(url, "a-judge", KEY), sleep=lambda _: None) as endpoint,
        pytest.raises(ServerError, match="answered 203"),
    ):
        endpoint.ask(QUESTION)


def test_without_a_key_there_is_no_judge() -> None:
    assert read_settings({}) is None
    assert read_settings({URL: "https://x/v1", MODEL: "m", KEY_NAME: " "}) is None
    found = read_settings({URL: "https://x/v1", MODEL: "m", KEY_NAME: KEY}, model="n")
    assert found == Settings("https://x/v1", "n", KEY)
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({KEY_NAME: KEY, MODEL: "m"}, f"{URL} is empty"),
        ({KEY_NAME: KEY, URL: "https://x"}, f"{MODEL} is empty"),
        ({KEY_NAME: KEY, URL: "file:///etc", MODEL: "m"}, "must begin with http"),
    ],
)
def test_half_a_setting_is_refused(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_settings(environment)
