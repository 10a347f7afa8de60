"""The plugin in ``vllm serve``: per request over HTTP, refusals, counters at /metrics, traces also of aborted requests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from integrations.vllm.tests.conftest import FOLDERS, TOKENS, WEIGHTS, environment

pytestmark = pytest.mark.vllm
MODEL = "pair"


class Server:
    """A running server and the folder with its trace file."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def complete(self, prompt: Any, **given: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/completions", json=self.body(prompt, **given), timeout=120)

    @staticmethod
    def body(prompt: Any, **given: Any) -> dict[str, Any]:
        return {
            "model": MODEL,
            "prompt": list(prompt),
            "max_tokens": TOKENS,
            "temperature": 0,
            "return_token_ids": True,
        } | given

    def counter(self, name: str) -> float:
        text = httpx.get(f"{self.url}/metrics").text
        return sum(float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE))

    def traces(self, count: int) -> list[dict[str, Any]]:
        """The lines of the trace file, once there are that many."""
        path = self.folder / "trace.jsonl"
        for _ in range(300):
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count:
                break
            time.sleep(0.1)
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "prometheus").mkdir()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    drafts = {"method": "draft_model", "model": FOLDERS["draft_model"], "num_speculative_tokens": 5}
    command = [
        "nice", "-n", "5", os.environ["VLLM_PYTHON"], "-m", "vllm.entrypoints.openai.api_server", "--model", str(WEIGHTS / "target"),
        "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "512",
        "--max-num-seqs", "16", "--no-enable-prefix-caching", "--speculative-config", json.dumps(drafts),
        *shlex.split(os.environ.get("MARS_VLLM_SERVE", "--enforce-eager")),
    ]  # fmt: skip
    given = environment(folder, PROMETHEUS_MULTIPROC_DIR=str(folder / "prometheus"))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=given, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.5)
        yield Server(f"http://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_every_request_has_its_own_rule(server: Server, prompts: Any) -> None:
    """Sixteen requests at once with different θ; θ = 1 is the answer to a request that asks for nothing."""
    thetas = [0.5 + i / 30 for i in range(15)] + [1.0]

    async def all_at_once() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(timeout=120) as client:
            bodies = [server.body(prompts[0], vllm_xargs={"mars_theta": theta, "mars_trace": 1}) for theta in thetas]
            found = await asyncio.gather(*(client.post(f"{server.url}/v1/completions", json=body) for body in bodies))
        return [response.json() for response in found]

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
        assert [token for step in trace["steps"] for token in step["emitted"]] == answer["choices"][0]["token_ids"]
        assert (
            any(any(step["relaxed"]) for step in trace["steps"]) is (answer["choices"] != plain["choices"]) or theta < 1
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mars_theta": 2}, "mars_theta must be a number from 0 to 1, not 2."),
        ({"mars_theta": "0.9"}, "mars_theta must be a number from 0 to 1, not '0.9'."),
        ({"mars_rule": "block"}, "mars_rule must be one of strict, mars"),
        ({"mars_theta": 0.9, "mars_gap": 1}, "'mars_gap' is not a parameter of rule mars"),
    ],
)
def test_bad_values_are_answered_with_400_and_one_sentence(
    server: Server, prompts: Any, given: dict[str, Any], message: str
) -> None:
    answer = server.complete(prompts[0], vllm_xargs=given)
    assert answer.status_code == 400 and message in answer.json()["error"]["message"]


def test_null_is_refused_by_vllm_itself(server: Server, prompts: Any) -> None:
    assert server.complete(prompts[0], vllm_xargs={"mars_theta": None}).status_code in (400, 422)


def test_counters_reach_the_metrics_of_the_server(server: Server, prompts: Any) -> None:
    names = "vllm:mars_judged_tokens_total", "vllm:mars_relaxed_tokens_total"
    before, lines = [server.counter(name) for name in names], len(server.traces(0))
    server.complete(prompts[0], vllm_xargs={"mars_theta": 0.5, "mars_trace": 1})
    relaxed = [on for step in server.traces(lines + 1)[-1]["steps"] for on in step["relaxed"]]
    judged, counted = (server.counter(name) - value for name, value in zip(names, before, strict=True))
    assert judged == len(relaxed) and judged >= counted >= sum(relaxed) > 0
    server.complete(prompts[0])
    assert server.counter(names[0]) - before[0] == judged, "a request that asks for nothing is not judged"
    assert server.counter("vllm:mars_enabled") >= 1


def test_an_aborted_request_leaves_its_line(server: Server, prompts: Any) -> None:
    before = len(server.traces(0))
    given = {"stream": True, "max_tokens": 400, "ignore_eos": True, "vllm_xargs": {"mars_theta": 0.9, "mars_trace": 1}}
    with httpx.stream(
        "POST", f"{server.url}/v1/completions", json=server.body(prompts[2], **given), timeout=120
    ) as stream:
        next(stream.iter_lines())
    trace = server.traces(before + 1)[before]
    assert 0 < sum(len(step["emitted"]) for step in trace["steps"]) < 400
