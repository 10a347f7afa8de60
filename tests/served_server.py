"""A stand-in for an OpenAI-compatible server, driven by mars_core, with the fields of vLLM and its
plugin, and faults on request."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from evaluation.served.answer import assembled
from mars_core.rules import RULES, WHERE
from mars_core.session import Session, run_config
from mars_core.types import (
    DrafterConfig,
    Exchange,
    PromptConfig,
    RuleConfig,
    Sampling,
    StopReason,
    Token,
    Trace,
)

MODEL = "bundled"
VERSION = "0.0.test"
_RUNS: dict[str, Trace] = {}  # what was requested before is not computed again


class Fault(Enum):
    """What happens to one request."""

    NONE = "it is answered"
    BUSY = "status 503"
    KILL = "the connection is closed after the first events"
    NONSENSE = "an event that is not JSON"
    CUT = "the answer ends without a finish reason"
    ERROR = "an error instead of the rest"
    SLOW = "nothing is sent for ``slow_s`` seconds"
    WEB_PAGE = "status 200 with a web page"


@dataclass
class Serving:
    """A server under test. Every attribute may be changed while it runs."""

    session: Session
    drafter: DrafterConfig | None = (
        None  # None: the pair's draft model with K = 5; DrafterConfig("none"): no drafts
    )
    rule: RuleConfig = field(default_factory=RuleConfig)  # of requests without mars_rule
    plugin: bool = (
        True  # without it vllm_xargs are ignored, as by vLLM, and /metrics has no vllm:mars_enabled
    )
    token_ids: bool = True  # whether return_token_ids is honoured
    # whether answers have metrics.speculative_decoding with the steps, as vLLM's ``detailed``
    steps: bool = True
    refuses: tuple[str, ...] = ()  # fields of a request that are answered with status 400
    change: Callable[[Trace], Trace] = lambda trace: trace  # applied to every run before it is sent
    faults: list[Fault] = field(default_factory=list)  # of the next requests, first come first
    slow_s: float = 0.5
    key: str = ""  # required, if not empty
    url: str = ""
    requests: list[dict[str, Any]] = field(
        default_factory=list
    )  # bodies of all completion requests
    alone: int | None = (
        None  # the answer to the request after so many begins only once another request has come
    )
    together: threading.Event = field(default_factory=threading.Event)
    generated: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    accepted_at: dict[int, int] = field(default_factory=dict)

    def reset(self, **changed: Any) -> Serving:
        """Itself, with every attribute as at the start but for those that are given."""
        initial = Serving(self.session, url=self.url, **changed)
        for each in fields(self):
            setattr(self, each.name, getattr(initial, each.name))
        return self


@contextmanager
def serve_models(session: Session, **changed: Any) -> Iterator[Serving]:
    """Runs a server on a free port of this machine. ``changed``: attributes of Serving."""
    serving = Serving(session, **changed)
    engine = ThreadPoolExecutor(max_workers=1)  # as everywhere, one thread computes
    routes = [
        Route("/v1/models", lambda request: _models(serving, request)),
        Route("/metrics", lambda _request: PlainTextResponse(_metrics(serving))),
        Route("/v1/completions", _endpoint(serving, engine, chat=False), methods=["POST"]),
        Route("/v1/chat/completions", _endpoint(serving, engine, chat=True), methods=["POST"]),
    ]
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # connections wait until the server has started
    serving.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    # Without log_config: uvicorn's would close all handlers, and absl's closes pytest's stderr
    # where capsys has replaced it.
    server = uvicorn.Server(
        uvicorn.Config(Starlette(routes=routes), log_config=None, access_log=False, lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield serving
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        engine.shutdown()


def _models(serving: Serving, request: Request) -> Response:
    return _refusal(serving, request) or JSONResponse(
        {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
    )


def _refusal(serving: Serving, request: Request) -> Response | None:
    if serving.key and request.headers.get("authorization") != f"Bearer {serving.key}":
        return JSONResponse({"error": f"bad key {request.headers.get('authorization')}"}, 401)
    return None


def _metrics(serving: Serving) -> str:
    """The counters of vLLM and of its plugin."""
    labels = f'{{engine="0",model_name="{MODEL}"}}'
    lines = [
        f"vllm:generation_tokens_total{labels} {serving.generated}",
        f"vllm:spec_decode_num_drafts_total{labels} {serving.drafts}",
        f"vllm:spec_decode_num_draft_tokens_total{labels} {serving.drafted}",
        f"vllm:spec_decode_num_accepted_tokens_total{labels} {serving.accepted}",
    ]
    for position, count in sorted(serving.accepted_at.items()):
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines.append(f'{name}{{engine="0",model_name="{MODEL}",position="{position}"}} {count}')
    if serving.plugin:
        lines.append(
            f'vllm:mars_enabled{{version="{VERSION}",runner="test",rule="{serving.rule.name}"}} 1.0'
        )
    return "\n".join(lines) + "\n"


def _endpoint(serving: Serving, engine: ThreadPoolExecutor, *, chat: bool) -> Callable[..., Any]:
    async def answer(request: Request) -> Response:
        body = await request.json()
        serving.requests.append(body)
        fault = serving.faults.pop(0) if serving.faults else Fault.NONE
        if refused := _refusal(serving, request):
            return refused
        if fault is Fault.BUSY:
            return PlainTextResponse("busy", 503)
        if fault is Fault.WEB_PAGE:
            return PlainTextResponse("<html>welcome</html>")
        for name in serving.refuses:
            if name in body:
                return JSONResponse(
                    {"error": f"Unrecognized request argument supplied: {name}"}, 400
                )
        if body.get("model") != MODEL:
            return JSONResponse({"error": f"The model {body.get('model')!r} does not exist."}, 404)
        if body.get("echo"):
            return JSONResponse(
                await run_in_threadpool(engine.submit(_echo, serving, body["prompt"]).result)
            )
        wait = (
            None
            if serving.alone is None or len(serving.requests) <= serving.alone
            else serving.together
        )
        if wait and len(serving.requests) > (serving.alone or 0) + 1:
            wait.set()
        events = _stream(serving, engine, body, fault, chat, wait)
        if body.get("stream") or fault is not Fault.NONE:
            return StreamingResponse(events, media_type="text/event-stream")
        return StreamingResponse(_joined(events), media_type="application/json")

    return answer


def _echo(serving: Serving, ids: list[int]) -> dict[str, Any]:
    """The tokens of a prompt with their log probabilities and the most likely token, as vLLM
    reports them."""
    pair = serving.session.pair
    with torch.inference_mode():
        logprobs = pair.target(torch.tensor([ids])).logits[0].log_softmax(-1)
    names = [pair.tokenizer.decode([id_]) for id_ in ids]
    best, at = logprobs.max(-1)
    token_logprobs = [float(row[id_]) for row, id_ in zip(logprobs, ids[1:], strict=False)]
    top = [
        {pair.tokenizer.decode([int(id_)]): float(value)}
        for id_, value in zip(at, best, strict=True)
    ]
    logprobs_by_name = {
        "tokens": names,
        "token_logprobs": [None, *token_logprobs],
        "top_logprobs": [None, *top[:-1]],
    }
    return {
        "choices": [
            {"index": 0, "text": "", "logprobs": logprobs_by_name, "finish_reason": "length"}
        ]
    }


def _stream(
    serving: Serving,
    engine: ThreadPoolExecutor,
    body: dict[str, Any],
    fault: Fault,
    chat: bool,
    wait: threading.Event | None,
) -> Iterator[str]:
    assert wait is None or wait.wait(60), "two requests were never in flight at the same time"
    trace = serving.change(engine.submit(_run, serving, body, chat).result())
    if fault is Fault.SLOW:
        time.sleep(serving.slow_s)
    for number, event in enumerate(_events(serving, body, trace, chat)):
        if number == 2 and fault is Fault.KILL:
            raise ConnectionError("killed")
        if number == 2 and fault is Fault.CUT:
            return
        if number == 2 and fault is Fault.ERROR:
            yield 'data: {"error": {"message": "EngineCore encountered an issue", "code": 500}}\n\n'
            return
        yield f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
        if number == 0 and fault is Fault.NONSENSE:
            yield "data: {]\n\n"
    yield "data: [DONE]\n\n"


def _joined(events: Iterator[str]) -> Iterator[str]:
    """The answer in one piece that a stream would be; the text of a chat too."""
    rows = (json.loads(event[5:]) for event in events if "[DONE]" not in event)
    yield json.dumps(assembled(rows))


def _run(serving: Serving, body: dict[str, Any], chat: bool) -> Trace:
    prompt = _prompt(serving, body, chat)
    xargs = body.get("vllm_xargs") or {} if serving.plugin else {}
    drafter = serving.drafter or DrafterConfig("model", None, 5)
    rule = serving.rule
    if "mars_rule" in xargs:
        name = str(xargs["mars_rule"])
        names = [parameter.name for parameter in RULES[name].parameters]
        values = {each: xargs[f"mars_{each}"] for each in names if f"mars_{each}" in xargs}
        scope = {WHERE.name: xargs["mars_scope"]} if "mars_scope" in xargs else {}
        rule = RuleConfig(name, values | scope)
    if drafter.kind == "none":
        rule = RuleConfig("none")
    config = run_config(
        serving.session.pair,
        prompt=prompt,
        rule=rule,
        drafter=drafter,
        sampling=Sampling(
            body.get("temperature", 1.0), max(0, body.get("top_k", 0)), body.get("top_p", 1.0)
        ),
        max_new_tokens=body["max_tokens"],
        seed=body.get("seed", time.perf_counter_ns() % 2**31),
    )
    key = f"{id(serving.session)} {config}"
    if key not in _RUNS:
        run = serving.session.start(config)
        for _ in run:
            pass
        _RUNS[key] = run.trace()
    serving.generated += _RUNS[key].summary.new_tokens
    for step in _RUNS[key].steps:
        serving.drafts += step.drafted > 0
        serving.drafted += step.drafted
        serving.accepted += step.kept
        for position in range(step.kept):
            serving.accepted_at[position] = serving.accepted_at.get(position, 0) + 1
    return _RUNS[key]


def _prompt(serving: Serving, body: dict[str, Any], chat: bool) -> PromptConfig:
    stop = tuple(body.get("stop") or ())
    if not chat:
        text = body["prompt"]
        decode = serving.session.pair.tokenizer.decode
        if not isinstance(text, str):  # ids, texts among them as for llama.cpp
            text = "".join(each if isinstance(each, str) else str(decode([each])) for each in text)
        return PromptConfig(text, chat=False, stop=stop)
    messages = body["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    turns = [each["content"] for each in messages if each["role"] != "system"]
    history = tuple(Exchange(turns[at], turns[at + 1]) for at in range(0, len(turns) - 1, 2))
    return PromptConfig(turns[-1], system, True, stop, history)


def _events(
    serving: Serving, body: dict[str, Any], trace: Trace, chat: bool
) -> Iterator[dict[str, Any]]:
    """One event per step, then the finish reason, then the usage, as vLLM sends them."""
    head = {"id": f"cmpl-{len(serving.requests)}", "object": "chunk", "created": 0, "model": MODEL}
    with_ids = bool(body.get("return_token_ids")) and serving.token_ids
    first: dict[str, Any] = {"prompt_token_ids": list(trace.prompt_ids)} if with_ids else {}
    end = min(
        (at for stop in trace.config.prompt.stop if (at := trace.text.find(stop)) >= 0),
        default=len(trace.text),
    )
    if chat:
        delta = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        yield head | {"choices": [delta]} | first
        first = {}
    for step in trace.steps:
        text = trace.text[step.emitted[0].start : min(end, step.emitted[-1].end)]
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": None,
            "logprobs": _logprobs(body, step.emitted, chat),
        }
        choice |= {"delta": {"content": text}} if chat else {"text": text} | first
        choice |= {"token_ids": [token.id for token in step.emitted]} if with_ids else {}
        first = {}
        yield head | {"choices": [choice]}
    reason = "length" if trace.stop_reason is StopReason.LENGTH else "stop"
    stop = trace.text[end:] if trace.stop_reason is StopReason.STOP_STRING else None
    last: dict[str, Any] = {"index": 0, "finish_reason": reason, "stop_reason": stop}
    yield head | {"choices": [last | ({"delta": {}} if chat else {"text": ""})]}
    tokens = {"prompt_tokens": len(trace.prompt_ids), "completion_tokens": len(trace.tokens)}
    usage: dict[str, Any] = head | {"choices": [], "usage": tokens}
    if serving.steps and trace.config.rule.name != "none":
        usage["metrics"] = {"speculative_decoding": _steps(trace)}
    yield usage


def _steps(trace: Trace) -> dict[str, Any]:
    """vLLM's report: its first token comes from the prefill, so the first step has one kept token
    less here."""
    first, *others = trace.steps
    steps = [(first.drafted - 1, first.kept - 1)] if first.kept else []
    steps += [(step.drafted, step.kept) for step in others]
    most = max((step.drafted for step in trace.steps), default=0)
    counts = [sum(accepted == each for _, accepted in steps) for each in range(most + 1)]
    return {
        "acceptance_histogram": counts,
        "num_spec_steps": len(steps),
        "num_spec_tokens": most,
        "num_draft_tokens": sum(drafted for drafted, _ in steps),
        "num_accepted_draft_tokens": sum(accepted for _, accepted in steps),
        "per_step_accepted": [accepted for _, accepted in steps],
        "per_step_drafted": [drafted for drafted, _ in steps],
    }


def _logprobs(body: dict[str, Any], tokens: tuple[Token, ...], chat: bool) -> dict[str, Any] | None:
    """The token and the target's two most likely ones, where the run recorded enough to tell."""
    if not body.get("logprobs"):
        return None
    ids = bool(body.get("return_tokens_as_token_ids"))
    rows = [
        (_label(token.id, token.piece, ids), token.logprob, _top(token, ids)) for token in tokens
    ]
    if chat:
        return {
            "content": [
                {
                    "token": piece,
                    "logprob": value,
                    "top_logprobs": [{"token": name, "logprob": p} for name, p in top],
                }
                for piece, value, top in rows
            ]
        }
    return {
        "tokens": [piece for piece, _, _ in rows],
        "token_logprobs": [value for _, value, _ in rows],
        "top_logprobs": [dict(top) for _, _, top in rows],
    }


def _label(id_: int, piece: str, ids: bool) -> str:
    return f"token_id:{id_}" if ids else piece


def _top(token: Token, ids: bool) -> list[tuple[str, float]]:
    """The two best tokens with their log probabilities at temperature 1, as far as the trace has
    them."""
    pieces = {each.id: each.piece for each in token.top} | {token.id: token.piece}
    first = {token.id1: token.logprob, token.id2: token.logprob + token.gap}.get(token.id)
    if first is None:  # the token is neither: only the probabilities of the trace are known
        return [
            (_label(each.id, each.piece, ids), math.log(each.p))
            for each in token.top[:2]
            if each.p > 0
        ]
    pairs = ((token.id1, first), (token.id2, first - token.gap))
    return [(_label(id_, pieces[id_], ids), value) for id_, value in pairs if id_ in pieces]
