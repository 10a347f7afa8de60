"""Runs of vLLM in a separate environment: lanes of prompts, and a process that decodes them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common.decoding import mixed_prompts

ROOT = Path(__file__).parents[3]
WEIGHTS = ROOT / "mars_core" / "demo" / "weights"
FOLDERS = {"draft_model": str(WEIGHTS / "draft"), "eagle3": str(WEIGHTS / "eagle3"), "ngram": ""}
TOKENS = 32
PROMPTS = tuple(mixed_prompts(16))


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


THETA = 0.85
MIXED: list[dict[str, Any] | None] = [
    [
        None,
        {"mars_theta": 1.0},
        {"mars_theta": THETA},
        {"mars_rule": "mars-gap", "mars_gap": 1.5},
        {"mars_rule": "topk-delta", "mars_n": 2},
        {"mars_theta": 0.6},
        {"mars_rule": "strict"},
        {"mars_rule": "threshold", "mars_single": 0.2},
    ][i % 8]
    for i in range(len(PROMPTS))
]
MIXED = [None if extra is None else extra | {"mars_trace": 1} for extra in MIXED]

SCOPES = {
    name: VllmLane(t, {"mars_theta": 0.5, "mars_scope": scope, "mars_trace": 1}, prompts=8)
    for name, scope, t in (
        ("late", "position >= 8", 0.0),
        ("phase 0", "thinking('.', ',')", 0.0),
        ("phase 1", "thinking('.', ',')", 1.0),
    )
}


def traced(theta: float) -> dict[str, Any]:
    return {"mars_theta": theta, "mars_trace": 1}


def lanes(*temperatures: float) -> dict[str, VllmLane]:
    """Return the lanes at each temperature: nothing asked, θ = 1, and θ below it."""
    return {
        f"{name} {t:g}": VllmLane(t, extra)
        for t in temperatures
        for name, extra in (("none", None), ("1", traced(1.0)), ("low", traced(THETA)))
    }
