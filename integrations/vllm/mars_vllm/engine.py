"""What both model runners share in a worker process: the defaults, the sign that the plugin is active, traces and counters."""

from __future__ import annotations

import logging
import os
from typing import Any

from mars_vllm import __version__
from mars_vllm.arguments import RequestRule, defaults, resolve
from mars_vllm.tracing import Recorder

_log = logging.getLogger("vllm.mars")


class Engine:
    """The plugin in one worker process. ``recorder`` is None on all but one rank of a tensor-parallel group."""

    def __init__(self, config: Any, runner: str) -> None:
        import vllm

        self.default = defaults(os.environ)
        self.path = os.environ.get("MARS_TRACE", "")
        rule = self.default.get("mars_rule", "mars" if self.default else "none")
        _log.info(
            "mars-vllm %s is active: vLLM %s, runner %s, default rule %s.", __version__, vllm.__version__, runner, rule
        )
        parallel, drafts = config.parallel_config, config.speculative_config
        self.recorder: Recorder | None = None
        if parallel.rank % parallel.tensor_parallel_size == 0:
            drafter = drafts and (drafts.method if drafts.model is None else f"{drafts.method}:{drafts.model}")
            about = {"model": config.model_config.model, "drafter": drafter, "vllm": vllm.__version__}
            self.recorder = Recorder(self.path, about, runner, rule)

    def resolve(self, params: Any) -> RequestRule | None:
        """What a request with these sampling parameters asks for."""
        return resolve(params.extra_args, params.temperature, self.default, bool(self.path))

    def finish(self, requests: set[str]) -> None:
        """Writes the traces of requests that have ended."""
        if self.recorder:
            self.recorder.publish()
            for request in requests:
                self.recorder.finish(request)
