"""The plugin in ``vllm serve``: per request over HTTP, refusals, counters at /metrics, traces also
of aborted requests."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from evaluation.advise.usage import PROCESSOR, uses
from evaluation.plan.lane import Lane
from integrations.vllm.tests.serving import VllmServer, serving
from mars_core.types import DrafterConfig, ModelRef, RuleConfig
from tests.reports import make_plan

pytestmark = pytest.mark.vllm


def test_every_request_has_a_separate_rule(server: VllmServer, prompts: Any) -> None:
    """Sixteen requests at once with different θ; θ = 1 is the answer to a request that specifies
    nothing."""
    thetas = [0.5 + i / 30 for i in range(15)] + [1.0]

    async def all_at_once() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(timeout=120) as client:
            bodies = [
                server.body(prompts[0], vllm_xargs={"mars_theta": theta, "mars_trace": 1})
                for theta in thetas
            ]
            responses = await asyncio.gather(
                *(client.post(f"{server.url}/v1/completions", json=body) for body in bodies)
            )
        return [response.json() for response in responses]

    plain = server.complete(prompts[0]).json()
    before = len(server.traces(0))
    answers = asyncio.run(all_at_once())
    assert answers[-1]["choices"][0]["token_ids"] == plain["choices"][0]["token_ids"]
    assert answers[0]["choices"][0]["token_ids"] != plain["choices"][0]["token_ids"]
    assert plain["system_fingerprint"].endswith("-mars-0.1.0")
    traces = server.traces(before + 16)[before:]
    by_theta = {trace["parameters"]["theta"]: trace for trace in traces}
    for theta, answer in zip(thetas, answers, strict=True):
        trace = by_theta[theta]
        assert trace["id"].startswith(answer["id"]) and trace["prompt_ids"] == list(prompts[0])
        assert [token for step in trace["steps"] for token in step["emitted"]] == answer["choices"][
            0
        ]["token_ids"]
        assert (
            any(any(step["relaxed"]) for step in trace["steps"])
            is (answer["choices"] != plain["choices"])
            or theta < 1
        )


def test_a_bad_value_is_answered_with_400_and_one_sentence(
    server: VllmServer, prompts: Any
) -> None:
    answer = server.complete(prompts[0], vllm_xargs={"mars_theta": 2})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400 and "theta is 2; rule mars takes 0 to 1." in message


def test_a_grammar_is_followed_strictly_and_a_thinking_budget_wins(
    server: VllmServer, prompts: Any
) -> None:
    """Without a reasoning parser a grammar begins at once, so that nothing is relaxed."""
    names = "vllm:mars_judged_tokens_total", "vllm:mars_relaxed_tokens_total"
    grammar = {"structured_outputs": {"regex": "[^~]{50}"}}
    before = [server.counter(name) for name in names]
    plain, ruled = (
        server.complete(prompts[0], **grammar, vllm_xargs=extra).json()["choices"][0]
        for extra in ({}, {"mars_rule": "always"})
    )
    assert ruled["token_ids"] == plain["token_ids"] and len(ruled["text"]) == 50
    judged, relaxed = (
        server.counter(name) - value for name, value in zip(names, before, strict=True)
    )
    assert judged > 0 == relaxed
    for extra in ({}, {"mars_rule": "always"}, {"mars_rule": "always", "mars_scope": "thinking"}):
        fields = {"thinking_token_budget": 6, "ignore_eos": True, "vllm_xargs": extra}
        (choice,) = server.complete([4, 18], **fields).json()["choices"]
        assert 16 in choice["token_ids"][:7], choice["token_ids"]


def test_counters_reach_the_metrics_of_the_server(server: VllmServer, prompts: Any) -> None:
    names = "vllm:mars_judged_tokens_total", "vllm:mars_relaxed_tokens_total"
    before, lines = [server.counter(name) for name in names], len(server.traces(0))
    server.complete(prompts[0], vllm_xargs={"mars_theta": 0.5, "mars_trace": 1})
    relaxed = [on for step in server.traces(lines + 1)[-1]["steps"] for on in step["relaxed"]]
    judged, counted = (
        server.counter(name) - value for name, value in zip(names, before, strict=True)
    )
    assert judged == len(relaxed) and judged >= counted >= sum(relaxed) > 0
    server.complete(prompts[0])
    assert server.counter(names[0]) - before[0] == judged, (
        "a request that asks for nothing is not judged"
    )
    assert server.counter("vllm:mars_enabled") >= 1


def test_an_aborted_request_leaves_its_line(server: VllmServer, prompts: Any) -> None:
    before = len(server.traces(0))
    fields = {
        "stream": True,
        "max_tokens": 400,
        "ignore_eos": True,
        "vllm_xargs": {"mars_theta": 0.9, "mars_trace": 1},
    }
    with httpx.stream(
        "POST", f"{server.url}/v1/completions", json=server.body(prompts[2], **fields), timeout=120
    ) as stream:
        next(stream.iter_lines())
    trace = server.traces(before + 1)[before]
    assert 0 < sum(len(step["emitted"]) for step in trace["steps"]) < 400


def test_the_advisors_command_serves_its_setting(
    server: VllmServer, prompts: Any, tmp_path: Path
) -> None:
    """Start the command without the option for runner V2, which there is not on a CPU."""
    plan = make_plan()
    models = replace(
        plan.models, target=ModelRef("bundled/target"), draft=ModelRef("bundled/draft")
    )
    lane = Lane(RuleConfig("mars", {"theta": 0.5}), DrafterConfig(k=5))
    command = uses(replace(plan, models=models), lane)["vLLM"]
    command = command.removesuffix(f" --logits-processors {PROCESSOR}")
    of_requests = [
        server.complete(prompt, vllm_xargs={"mars_theta": 0.5}) for prompt in prompts[:4]
    ]
    plain = [server.complete(prompt) for prompt in prompts[:4]]
    with serving(tmp_path, command) as advised:
        answers = [advised.complete(prompt) for prompt in prompts[:4]]
        assert advised.counter("vllm:mars_relaxed_tokens_total") > 0
    texts, same, other = (
        [answer.json()["choices"][0]["token_ids"] for answer in each]
        for each in (answers, of_requests, plain)
    )
    assert texts == same != other
