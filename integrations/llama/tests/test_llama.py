"""A llama.cpp server with and without speculative decoding: the verdict of ``mars check`` is right,
and a study on it claims only what it reports. ``integrations/llama/try`` starts these tests, one
server at a time.

Environment: LLAMA_PYTHON, the interpreter of an environment with xllamacpp; LLAMA_MODEL, a file
with SmolLM2-135M-Instruct; MARS_LLAMA_RESULT, the file for the measurements (optional).
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.common.command import collected
from bench.common.report import ResultTable
from evaluation.served.client import Client
from evaluation.served.server import Server
from evaluation.served.trace import answer_trace
from mars_core.types import DrafterConfig, ModelRef, PromptConfig, RuleConfig, RunConfig, Sampling
from mars_playground.__main__ import main

pytestmark = pytest.mark.skipif(
    "LLAMA_PYTHON" not in os.environ, reason="needs a llama.cpp server: make llama"
)
PROMPTS = {
    "English": (
        "The capital of France is",
        "Once upon a time, there was a small",
        "one two three four one two three four one",
    ),
    "emoji": ("Emoji: 😀😃😄 😀😃😄 😀", "🌍🌎🌏 🚀🚀 means", "I ❤️ 🍕 because"),
    "Chinese": ("今天天气很好", "北京是中国的首都。", "一二三四一二三四一二"),
    "Korean": ("안녕하세요. 오늘은", "대한민국의 수도는 서울입니다.", "하나 둘 셋 하나 둘 셋 하나"),
    "code": (
        "def fibonacci(n):",
        "for i in range(10): print(i); for i in range(10):",
        "import numpy as np",
    ),
}
DRAWS = 30
VERDICTS = {
    "none": "lossless as far as tested",
    "ngram": "lossless as far as tested",
    "draft": "lossless as far as tested",
    "synthetic": "not lossless",
}


@contextmanager
def serving(kind: str) -> Iterator[str]:
    """Serve; give the URL of a server that is ready."""
    command = [
        os.environ["LLAMA_PYTHON"],
        str(Path(__file__).parents[1] / "serve.py"),
        os.environ["LLAMA_MODEL"],
        kind,
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout and select.select([process.stdout], [], [], 300)[0], (
                "the server did not start"
            )
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def tables() -> Iterator[list[ResultTable]]:
    title = "Verdicts on a llama.cpp server"
    yield from collected("MARS_LLAMA_RESULT", "make llama", title, _installed)


def _installed() -> dict[str, str]:
    """Return the server that runs, with its version."""
    code = "import importlib.metadata as m; print(m.version('xllamacpp'))"
    command = [os.environ["LLAMA_PYTHON"], "-c", code]
    version = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return {"server": f"xllamacpp {version} with SmolLM2-135M-Instruct Q4_1, 4 slots, one thread"}


@pytest.mark.parametrize("kind", VERDICTS)
def test_the_verdict_is_right_and_left_out_prompts_are_named(
    kind: str, tmp_path: Path, tables: list[ResultTable], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prompts").write_text(
        "\n".join(prompt for each in PROMPTS.values() for prompt in each), encoding="utf-8"
    )
    arguments = [
        "--prompts",
        str(tmp_path / "prompts"),
        "--draws",
        str(DRAWS),
        "--repeats",
        str(DRAWS),
        "--json",
        str(tmp_path / "found.json"),
    ]
    started = time.perf_counter()
    with serving(kind) as url:
        main(["check", "--server", url, *arguments])
    result = json.loads((tmp_path / "found.json").read_text())
    rows = [[each["check"], each["verdict"], each["reason"]] for each in result["findings"]]
    title = f"{kind}: {result['verdict']} ({time.perf_counter() - started:.0f} s)"
    tables.append(ResultTable(["check", "result", "note"], rows, title))
    assert result["verdict"] == VERDICTS[kind], capsys.readouterr().out
    (reason,) = (
        row[2] for row in rows if row[0].startswith("Temperature 1, against the log probabilities")
    )
    named = re.search(r"after prompts ([\d, ]+): give --reference", reason)
    assert (
        named
        and set(range(7, 13)) <= set(map(int, named[1].split(", ")))
        and "1" not in named[1].split(", ")
    )
    assert rows[-1][1] == ("not tested" if kind == "none" else "lossless as far as tested")


@pytest.mark.parametrize("kind", ["none", "ngram"])
def test_a_run_claims_only_what_the_server_reports(kind: str, tables: list[ResultTable]) -> None:
    """Chats with a stop string, as a study asks them: tokens are counted, and those without a log
    probability make no likelihood."""
    rows = []
    with serving(kind) as url, Client(Server(url, "smollm2")) as client:
        for language, (prompt, *_) in PROMPTS.items():
            settings = PromptConfig(prompt, stop=(".",))
            config = RunConfig(
                settings,
                ModelRef("smollm2"),
                DrafterConfig("server", None, 0),
                RuleConfig("server"),
                Sampling(),
                max_new_tokens=48,
            )
            answer = client.complete(
                [{"role": "user", "content": prompt}], max_tokens=48, stop=settings.stop, logprobs=2
            )
            trace = answer_trace(config, answer)
            unstreamed = client.complete(
                [{"role": "user", "content": prompt}],
                max_tokens=48,
                stop=settings.stop,
                stream=False,
                stream_options=None,
            )
            accepted = answer.extra["timings"].get("draft_n_accepted", 0)
            assert (
                trace.text == unstreamed.text
                and trace.summary.new_tokens == answer.usage["completion_tokens"]
            )
            assert math.isnan(trace.summary.log_likelihood) or (
                not accepted and answer.names is not None
            )
            assert (
                not trace.error and trace.summary.prompt_tokens == answer.usage["prompt_tokens"] > 0
            )
            likely = (
                None if math.isnan(trace.summary.log_likelihood) else trace.summary.log_likelihood
            )
            rows.append([language, trace.summary.new_tokens, accepted, likely, trace.stop_reason])
    tables.append(
        ResultTable(
            ["prompt", "new tokens", "accepted drafts", "ln p", "result"],
            rows,
            f"Answers of the server {kind}",
        )
    )
