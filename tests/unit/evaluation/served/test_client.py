"""A server that answers, streams, refuses a field, is killed, is slow, or answers nonsense; its run
as a trace that claims nothing else."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from evaluation.served.answer import Answer
from evaluation.served.client import Client
from evaluation.served.request import request_of
from evaluation.served.server import Server, ServerError
from evaluation.served.tokens import token_of
from evaluation.served.trace import ServedStep, answer_trace, served_trace, vllm_steps
from evaluation.study.result import result_of
from evaluation.suites.read import read_suite
from mars_core.types import (
    UNKNOWN,
    DrafterConfig,
    ModelRef,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    StopReason,
    Token,
    Trace,
)
from storage import RunStore
from tests.served_server import MODEL, Fault, Serving
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.judge.server import Reply, serve

PROMPT = "A story about Greta in a village, please."


def complete(
    serving: Serving, prompt: object = PROMPT, **settings: object
) -> tuple[Answer, list[float]]:
    """The answer, and the pauses before further tries."""
    pauses: list[float] = []
    with Client(Server(serving.url, MODEL), pauses.append) as client:
        return client.complete(prompt, **({"max_tokens": 24} | settings)), pauses  # type: ignore[arg-type]


def runs_of(serving: Serving) -> list[Trace]:
    """The runs of the server from now on."""
    runs: list[Trace] = []
    serving.change = lambda trace: runs.append(trace) or trace  # type: ignore[func-returns-value]
    return runs


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.KILL, Fault.CUT, Fault.ERROR])
def test_what_may_pass_is_tried_again(serving: Serving, fault: Fault) -> None:
    undisturbed, _ = complete(serving)
    serving.faults = [fault, fault]
    answer, pauses = complete(serving)
    expect(answer, text=undisturbed.text, token_ids=undisturbed.token_ids)
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
        complete(serving)
    assert str(raised.value) == f"The server {serving.url} {sentence}."


def test_a_server_that_is_slow_is_one_sentence(serving: Serving) -> None:
    serving.faults = [Fault.SLOW] * 2
    with (
        Client(Server(serving.url, MODEL, tries=2), lambda _: None, timeout_s=0.1) as client,
        pytest.raises(ServerError, match=r"did not answer \(ReadTimeout\)\.$"),
    ):
        client.complete(PROMPT, max_tokens=4)


def test_a_field_that_a_server_refuses_is_left_out_from_then_on_and_is_no_failed_try(
    serving: Serving,
) -> None:
    serving.refuses = (
        "return_token_ids",
        "logprobs",
        "min_p",
        "repetition_penalty",
        "stream_options",
        "top_k",
    )
    pauses: list[float] = []
    with Client(Server(serving.url, MODEL), pauses.append) as client:
        for requests in (7, 8):  # six refusals, then one request each
            answer = client.complete(
                PROMPT, max_tokens=4, temperature=1.0, min_p=0.0, repetition_penalty=1.0
            )
            assert answer.text and (answer.token_ids, answer.logprobs) == (None, None)
            assert len(serving.requests) == requests and not pauses


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (401, 1), (404, 1), (429, 3)])
def test_what_a_server_says_is_one_short_line_without_the_key(status: int, tries: int) -> None:
    """And cannot command a terminal."""
    key, said = "sk-secret-9876", "bad key sk-secret-9876 \x1b[2J\u202e\nsorry "
    with (
        serve(lambda _body, _number: Reply(said * 40, status)) as (url, requests),
        Client(server := Server(url, MODEL, key, tries=3), lambda _: None) as client,
        pytest.raises(ServerError, match=f"answered {status}: bad key … ␛") as raised,
    ):
        client.complete(PROMPT, max_tokens=4)
    sentence = str(raised.value)
    assert len(requests) == tries and sentence.isprintable() and len(sentence) < 300
    assert key not in sentence + repr(server)


CONFIG = RunConfig(
    PromptConfig("Tell a story about a restless boy called Sam.", chat=False, stop=("###",)),
    ModelRef("m"),
    DrafterConfig("server", None, 0),
    RuleConfig("server"),
    Sampling(),
    max_new_tokens=40,
)
STRICT, MARS = RuleConfig("strict"), RuleConfig("mars", {"theta": 0.5})


def answered(serving: Serving, rule: RuleConfig, **settings: Any) -> tuple[Trace, Trace]:
    """The run as the server reports it, and as it was."""
    runs = runs_of(serving)
    xargs = {"mars_rule": rule.name} | {
        f"mars_{name}": value for name, value in rule.parameters.items()
    }
    with Client(Server(serving.url, MODEL)) as client:
        answer = client.complete(
            CONFIG.prompt.text, max_tokens=CONFIG.max_new_tokens, xargs=xargs, **settings
        )
    return answer_trace(replace(CONFIG, rule=rule), answer), runs[0]


def of(text: str, *tokens: Token, **changed: Any) -> Trace:
    return served_trace(CONFIG, text=text, tokens=tokens, stop_reason=StopReason.EOS, **changed)


def test_a_server_is_asked_for_the_tools_and_the_form_of_an_item() -> None:
    for item in read_suite("tools").items:
        prompt = PromptConfig(item.turns[0], structure=item.structure)
        request = request_of(replace(CONFIG, prompt=prompt))
        offered = [each["function"]["name"] for each in request.get("tools", ())]
        assert offered == [tool.name for tool in item.tools]
        form = request.get("response_format", {}).get("json_schema", {}).get("schema")
        assert form == (json.loads(item.schema) if item.schema else None)
    with pytest.raises(ValueError, match="in a chat only"):
        request_of(replace(CONFIG, prompt=replace(prompt, chat=False)))


def test_nothing_is_claimed_that_the_server_did_not_report(serving: Serving) -> None:
    serving.token_ids = serving.steps = False
    trace, run = answered(serving, STRICT, logprobs=0)
    assert trace.text == run.text and len(trace.tokens) == 1 and trace.tokens[0].id == UNKNOWN
    summary = asdict(trace.summary)
    known = {
        "new_tokens",
        "prompt_tokens",
        "wall_s",
        "ttft_s",
        "tokens_per_s",
        "acceptance_by_position",
    }
    assert (summary["new_tokens"], summary["prompt_tokens"]) == (
        len(run.tokens),
        len(run.prompt_ids),
    )
    for name, value in summary.items():
        assert name in known or value == UNKNOWN or math.isnan(value), name
    result = result_of([trace], {})
    assert all(
        math.isnan(getattr(result, name))
        for name in ("steps", "drafted", "accepted", "relaxed", "tv_sum")
    )
    expect(result, drafted_at=(), kept_at=())


@pytest.mark.parametrize(
    ("drafted", "accepted", "tokens", "steps"),
    [
        ([3, 3], [3, 1], 7, [(3, 3, 5, 1), (3, 1, 2, 0)]),
        ([3, 3], [3, 3], 7, [(3, 3, 5, 1), (3, 2, 2, 0)]),  # the limit ended the last step
        ([3, 3], [3, 1], 8, None),  # a step that drafted nothing is not among them
        ([3], [4], 6, None),
        (["3"], [3], 5, None),
        ([], [], 1, None),
    ],
)
def test_steps_of_vllm_explain_every_token_or_are_unknown(
    drafted: list[Any], accepted: list[Any], tokens: int, steps: list[tuple[int, ...]] | None
) -> None:
    actual = vllm_steps({"per_step_drafted": drafted, "per_step_accepted": accepted}, tokens)
    assert actual == (steps and [ServedStep(*step) for step in steps])
    assert vllm_steps(None, tokens) is vllm_steps({}, tokens) is vllm_steps([1], tokens) is None


def test_pieces_that_are_not_the_text_leave_it_unsplit() -> None:
    pieces = ("a", "bytes:\\xc3", "bytes:\\xa9", "!")
    trace = of("aé!", *(token_of(number, piece) for number, piece in enumerate(pieces, start=1)))
    assert [(token.start, token.end) for token in trace.tokens] == [(0, 1), (1, 1), (1, 1), (1, 3)]


@pytest.mark.parametrize("count", [-5, math.inf, "many", True, 2**31, 10**23])
def test_a_count_that_no_database_holds_is_unknown(count: Any, store: RunStore) -> None:
    usage = {"completion_tokens": count, "prompt_tokens": count}
    trace = answer_trace(CONFIG, Answer("a", "stop", usage=usage))
    comparison_id = store.new_comparison(CONFIG.prompt)
    saved = store.traces([store.save_run(comparison_id, trace, lane=0, order=0)])
    for each in (trace, *saved.values()):
        expect(each.summary, new_tokens=UNKNOWN, prompt_tokens=UNKNOWN)
