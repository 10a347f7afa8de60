"""Runs of vLLM in a separate environment, and what was measured in them.
``integrations/vllm/try`` starts these tests.

Environment: VLLM_PYTHON, the interpreter of an environment with vLLM; MARS_VLLM_SITE, a folder in
which the wheel is installed; MARS_VLLM_RESULT, the file for the measurements (optional).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.common.command import machine
from bench.common.decoding import loaded, mixed_prompts
from bench.common.report import BenchReport, ResultTable, save
from mars_core.text.prompting import encode

ROOT = Path(__file__).parents[3]
WEIGHTS = ROOT / "mars_core" / "demo" / "weights"
FOLDERS = {"draft_model": str(WEIGHTS / "draft"), "eagle3": str(WEIGHTS / "eagle3"), "ngram": ""}
TOKENS = 32
PROMPTS = tuple(mixed_prompts(16))

collect_ignore = (
    []
    if "VLLM_PYTHON" in os.environ
    else ["test_engine.py", "test_laboratory.py", "test_server.py"]
)


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment for a process with vLLM. The plugin is loaded unless VLLM_PLUGINS is
    given."""
    python = Path(os.environ["VLLM_PYTHON"])
    usual = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "MARS_MEND_CPU": "1",
        "PYTHONPATH": os.environ["MARS_VLLM_SITE"],
        "MARS_TRACE": str(folder / "trace.jsonl"),
    }
    openmp = python.parents[1] / "lib" / "libiomp5.so"
    return usual | ({"LD_PRELOAD": str(openmp)} if openmp.exists() else {}) | variables


@dataclass(frozen=True)
class VllmLane:
    """A batch: the sampling of all prompts, and what each asks of the plugin."""

    temperature: float
    extra: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None
    sampling: tuple[tuple[str, Any], ...] = ()
    prompts: int = len(PROMPTS)


class VllmRun:
    """The batches that one process with vLLM decoded, by the names of their lanes, and its trace
    file."""

    def __init__(
        self,
        folder: Path,
        prompts: Sequence[Sequence[int]],
        job: dict[str, Any],
        lanes: dict[str, VllmLane],
        **variables: str,
    ) -> None:
        batches = [
            [
                {
                    "prompt_ids": list(prompt),
                    "sampling": {
                        "temperature": lane.temperature,
                        "max_tokens": TOKENS,
                        "seed": 100 + i,
                        "extra_args": lane.extra[i] if isinstance(lane.extra, list) else lane.extra,
                    }
                    | dict(lane.sampling),
                }
                for i, prompt in enumerate(prompts[: lane.prompts])
            ]
            for lane in lanes.values()
        ]
        usual = {
            "target": str(WEIGHTS / "target"),
            "draft": FOLDERS[job["method"]],
            "runner": "V1",
            "batches": batches,
        }
        (folder / "job.json").write_text(json.dumps(usual | job))
        command = [
            "nice",
            "-n",
            "5",
            os.environ["VLLM_PYTHON"],
            str(Path(__file__).with_name("worker.py")),
            "job.json",
            "result.json",
        ]
        with (folder / "log").open("w") as log:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment(folder, **variables),
                stdout=log,
                stderr=log,
                timeout=900,
            )
        self.log = (folder / "log").read_text()
        assert done.returncode == 0, self.log[-3000:]
        decoded = json.loads((folder / "result.json").read_text())["batches"]
        self.batches: dict[str, dict[str, Any]] = dict(zip(lanes, decoded, strict=True))
        trace = folder / "trace.jsonl"
        self.traces = (
            [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []
        )

    def ids(self, lane: str) -> list[list[int]]:
        return [each["ids"] for each in self.batches[lane]["outputs"]]

    def length(self, lane: str) -> float:
        """Mean acceptance length, of vLLM's counters."""
        counters = self.batches[lane]["counters"]
        return (
            1
            + counters["vllm:spec_decode_num_accepted_tokens"]
            / counters["vllm:spec_decode_num_drafts"]
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
    """Measurements, written at the end as JSON and Markdown."""
    rows: list[ResultTable] = []
    yield rows
    if path := os.environ.get("MARS_VLLM_RESULT"):
        facts = {
            "command": "make vllm",
            **machine(torch.device("cpu")),
            "vllm": "0.32.0 (vllm-cpu), float32, K = 5, 16 prompts",
        }
        data = {
            table.title: [dict(zip(table.heads, row, strict=True)) for row in table.rows]
            for table in rows
        }
        save(
            BenchReport(
                "The plugin in vLLM, on the bundled pair", tables=rows, data=data, facts=facts
            ),
            Path(path),
        )
