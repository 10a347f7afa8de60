"""Runs of vLLM in a separate environment, and what was measured in them.
``integrations/vllm/try`` starts these tests.

Environment: VLLM_PYTHON, the interpreter of an environment with vLLM; MARS_VLLM_SITE, a folder in
which the wheel is installed; MARS_VLLM_RESULT, the file for the measurements (optional).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bench.common.command import collected
from bench.common.decoding import loaded
from bench.common.report import ResultTable
from integrations.vllm.tests.running import (
    MIXED,
    PROMPTS,
    SCOPES,
    VllmLane,
    VllmRun,
    lanes,
)
from mars_core.text.prompting import encode

collect_ignore = (
    []
    if "VLLM_PYTHON" in os.environ
    else ["test_engine.py", "test_laboratory.py", "test_measured.py", "test_server.py"]
)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from integrations.vllm.tests.serving import serving

    with serving(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session")
def pair() -> Any:
    return loaded()


@pytest.fixture(scope="session")
def prompts(pair: Any) -> list[tuple[int, ...]]:
    """Return the ids of 16 prompts, with the chat template."""
    return [tuple(encode(pair.tokenizer, prompt)) for prompt in PROMPTS]


@pytest.fixture(scope="session")
def tables() -> Iterator[list[ResultTable]]:
    title = "The plugin in vLLM, on the bundled pair"
    yield from collected("MARS_VLLM_RESULT", "make vllm", title, _installed)


def _installed() -> dict[str, str]:
    """Return the distribution of vLLM that runs, with its version."""
    command = [os.environ["VLLM_PYTHON"], "-m", "pip", "freeze", "--disable-pip-version-check"]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    version = " ".join(line for line in lines if line.startswith("vllm"))
    return {"vllm": f"{version}, float32, K = 5, 16 prompts"}


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory, prompts: Any) -> VllmRun:
    """vLLM without the plugin in one process, in which the worker repairs what the build for CPUs
    does wrong above temperature 0."""
    wanted, options = (
        {"0": VllmLane(0.0), "1": VllmLane(1.0)},
        {"VLLM_PLUGINS": "", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    )
    return VllmRun(
        tmp_path_factory.mktemp("stock"),
        prompts,
        {"method": "draft_model", "expand": True},
        wanted,
        **options,
    )


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, prompts: Any) -> dict[str, VllmRun]:
    more = {
        "mixed": VllmLane(0.0, MIXED),
        "typical": VllmLane(1.0, {"mars_rule": "typical", "mars_trace": 1}, (("top_p", 0.9),)),
    }
    return {
        "draft_model": VllmRun(
            tmp_path_factory.mktemp("draft"),
            prompts,
            {"method": "draft_model"},
            lanes(0, 1) | more | SCOPES,
        ),
        "eagle3": VllmRun(
            tmp_path_factory.mktemp("eagle3"), prompts, {"method": "eagle3"}, lanes(0, 1)
        ),
        "ngram": VllmRun(tmp_path_factory.mktemp("ngram"), prompts, {"method": "ngram"}, lanes(0)),
    }


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory, prompts: Any) -> VllmRun:
    """Runner V2 under Triton's interpreter, in one process."""
    job = {
        "method": "draft_model",
        "runner": "V2",
        "logits_processors": ["mars_vllm.runner_v2:MarsProcessor"],
    }
    options = {
        "TRITON_INTERPRET": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    wanted = {
        name: replace(lane, sampling=(("max_tokens", 24),))
        for name, lane in (lanes(0, 1) | SCOPES).items()
    }
    late = {
        "mixed": VllmLane(0.0, MIXED),
        "filtered": VllmLane(1.0, {"mars_rule": "typical"}, (("top_p", 0.9),), 1),
    }
    return VllmRun(tmp_path_factory.mktemp("v2"), prompts, job, wanted | late, **options)
