"""A server that answers, streams, refuses a field, is killed, is slow, or answers nonsense."""

from __future__ import annotations

import pytest

from evaluation.served.answer import Answer
from evaluation.served.client import Client, Server, ServerError
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig, Sampling, Trace
from tests.served_server import MODEL, Fault, Serving
from tests.unit.evaluation.judge.server import Reply, serve

PROMPT = "A story about Greta in a village, please."
KEY = "sk-secret-9876"


def ask(serving: Serving, prompt: object = PROMPT, **settings: object) -> tuple[Answer, list[float]]:
    """The answer, and the pauses before further tries."""
    pauses: list[float] = []
    with Client(Server(serving.url, MODEL, serving.key), pauses.append) as client:
        return client.complete(prompt, **({"max_tokens": 24} | settings)), pauses  # type: ignore[arg-type]


def run(session: Session, prompt: PromptConfig, rule: RuleConfig, temperature: float = 0.0, seed: int = 0) -> Trace:
    started = session.start(
        run_config(
            session.pair, prompt=prompt, rule=rule, drafter=DrafterConfig("model", None, 5),
            sampling=Sampling(temperature), max_new_tokens=24, seed=seed,
        )
    )  # fmt: skip
    for _ in started:
        pass
    return started.trace()


@pytest.mark.parametrize(("rule", "temperature"), [("strict", 0.0), ("mars", 0.0), ("mars", 1.0)])
def test_an_answer_has_everything_that_the_server_reports(serving: Serving, rule: str, temperature: float) -> None:
    xargs = {"mars_rule": "mars", "mars_theta": 0.5} if rule == "mars" else {}
    wanted = RuleConfig("mars", {"theta": 0.5}) if rule == "mars" else RuleConfig()
    trace = run(serving.session, PromptConfig(PROMPT, chat=False), wanted, temperature, seed=3)
    answer, _ = ask(serving, temperature=temperature, seed=3, xargs=xargs)
    assert (answer.text, answer.token_ids, answer.prompt_ids) == (trace.text, trace.token_ids, trace.prompt_ids)
    assert answer.logprobs is not None
    assert [each.token for each in answer.logprobs] == [token.piece for token in trace.tokens]
    assert [each.logprob for each in answer.logprobs] == pytest.approx([token.logprob for token in trace.tokens])
    for found, token in zip(answer.logprobs, trace.tokens, strict=True):
        if len(found.top) == 2:
            assert found.top[0][1] - found.top[1][1] == pytest.approx(token.gap, abs=1e-4)
    assert answer.usage == {"prompt_tokens": len(trace.prompt_ids), "completion_tokens": len(trace.tokens)}
    assert answer.finish_reason in ("length", "stop")
    assert sum(answer.extra["metrics"]["speculative_decoding"]["per_step_accepted"]) > 0
    assert 0 < answer.ttft_s <= answer.wall_s


def test_a_chat_is_a_chat(serving: Serving) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
    answer, _ = ask(serving, messages)
    trace = run(serving.session, PromptConfig(PROMPT, "Be brief."), RuleConfig())
    assert (answer.text, answer.token_ids, answer.prompt_ids) == (trace.text, trace.token_ids, trace.prompt_ids)
    assert answer.logprobs is not None and len(answer.logprobs) == len(trace.tokens)


def test_models_and_metrics_are_read(serving: Serving) -> None:
    with Client(Server(serving.url.removesuffix("/v1"))) as client:
        assert client.models() == (MODEL,)
        assert "vllm:mars_enabled" in client.metrics()


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.KILL, Fault.CUT, Fault.ERROR])
def test_what_may_pass_is_tried_again(serving: Serving, fault: Fault) -> None:
    whole, _ = ask(serving)
    serving.faults = [fault, fault]
    answer, pauses = ask(serving)
    assert (answer.text, answer.token_ids) == (whole.text, whole.token_ids)
    assert pauses == [1.0, 2.0]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Fault.BUSY, "answered 503: busy"),
        (Fault.KILL, "did not answer (RemoteProtocolError)"),
        (Fault.CUT, "ended its answer without a finish reason"),
        (Fault.ERROR, "ended its answer with an error: EngineCore encountered an issue"),
        (Fault.NONSENSE, "gave an answer that is not one of the OpenAI interface"),
        (Fault.WEB_PAGE, "gave an answer that is not one of the OpenAI interface"),
    ],
)
def test_a_fault_that_stays_is_one_sentence(serving: Serving, fault: Fault, sentence: str) -> None:
    serving.faults = [fault] * 5
    with pytest.raises(ServerError) as raised:
        ask(serving)
    assert str(raised.value) == f"The server {serving.url} {sentence}."


def test_a_server_that_is_slow_or_absent_is_one_sentence(serving: Serving) -> None:
    serving.faults = [Fault.SLOW] * 2
    with (
        Client(Server(serving.url, MODEL, tries=2), lambda _: None, timeout_s=0.1) as client,
        pytest.raises(ServerError, match=r"did not answer \(ReadTimeout\)\.$"),
    ):
        client.complete(PROMPT, max_tokens=4)
    with (
        Client(Server("http://127.0.0.1:9", MODEL, tries=2), lambda _: None) as client,
        pytest.raises(ServerError, match=r"did not answer \(ConnectError\)\.$"),
    ):
        client.models()


def test_a_field_that_a_server_refuses_is_left_out_from_then_on_and_is_no_failed_try(serving: Serving) -> None:
    serving.refuses = ("return_token_ids", "logprobs", "min_p", "repetition_penalty", "stream_options", "top_k")
    pauses: list[float] = []
    with Client(Server(serving.url, MODEL), pauses.append) as client:
        for requests in (7, 8):  # six refusals, then one request each
            answer = client.complete(PROMPT, max_tokens=4, temperature=1.0, min_p=0.0, repetition_penalty=1.0)
            assert answer.text and (answer.token_ids, answer.logprobs) == (None, None)
            assert len(serving.requests) == requests and not pauses


def test_what_a_server_says_cannot_command_a_terminal() -> None:
    with (
        serve(lambda _body, _number: Reply("no \x1b[2J\u202e", 400)) as (url, _),
        Client(Server(url, MODEL), lambda _: None) as client,
        pytest.raises(ServerError, match="answered 400: no ␛") as raised,
    ):
        client.complete(PROMPT, max_tokens=4)
    assert str(raised.value).isprintable()


def test_a_setting_that_a_server_refuses_is_not_left_out(serving: Serving) -> None:
    serving.refuses = ("seed",)
    with pytest.raises(ServerError, match=r"answered 400: .*Unrecognized request argument supplied: seed"):
        ask(serving, seed=1)


def test_the_key_is_sent_and_in_no_message(serving: Serving) -> None:
    serving.key = KEY
    assert ask(serving, max_tokens=4)[0].text
    server = Server(serving.url, MODEL, "sk-wrong")
    with Client(server) as client, pytest.raises(ServerError, match=r"answered 401: .*bad key Bearer …") as raised:
        client.complete(PROMPT, max_tokens=4)
    assert "sk-wrong" not in str(raised.value) + repr(server)


def test_a_request_that_is_closed_ends_on_the_server(serving: Serving) -> None:
    with Client(Server(serving.url, MODEL)) as client:
        stream = client.stream(PROMPT, max_tokens=24)
        while not next(stream):
            pass
        stream.close()
        assert client.complete(PROMPT, max_tokens=24).finish_reason == "length"


def test_a_url_that_is_not_one_is_refused_and_no_password_repeated() -> None:
    for url in ("", "file:///etc/passwd", "//host", "http://", "http://host:port", "not a url"):
        with pytest.raises(ValueError, match="it must begin with http:// or https://"):
            Server(url)
    for url in ("http://me:secret@host/v1", "http://host/v1?key=secret"):
        with pytest.raises(ValueError, match="contains a password or a query") as raised:
            Server(url)
        assert "secret" not in str(raised.value)
