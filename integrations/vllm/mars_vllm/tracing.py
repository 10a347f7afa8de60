"""What the rule did: one JSON line per finished request, and counters."""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import json
import logging
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict

import torch
from prometheus_client import Counter, Gauge
from torch import Tensor

from mars_vllm import __version__
from mars_vllm.arguments import RequestRule, default_rule, defaults, resolve
from mars_vllm.judging import Best
from mars_vllm.served import served

FORMAT = "mars-vllm-1"
ENABLED, ABOUT_ENABLED, ENABLED_LABELS = (
    "vllm:mars_enabled",
    "1 if the plugin is active.",
    ("version", "runner", "rule"),
)
_log = logging.getLogger("vllm.mars")  # vLLM configures the handlers of its name


@functools.cache
def _metrics() -> tuple[Counter, Counter, Gauge]:
    """Make the metrics in the style of vLLM's own, once per process."""
    labels = ("model_name",)
    return (
        Counter("vllm:mars_judged_tokens", "Drafted tokens of requests with a rule.", labels),
        Counter(
            "vllm:mars_relaxed_tokens",
            "Drafted tokens that the rule kept and strict would not surely keep.",
            labels,
        ),
        Gauge(
            ENABLED, ABOUT_ENABLED, ENABLED_LABELS, registry=None, multiprocess_mode="max"
        ),  # see install.Enabled
    )


class JudgedStep(NamedTuple):
    """The rows of one step that have a drafted token, and what was decided on them."""

    drafted: Tensor  # int64 [P]
    relaxed: Tensor  # bool [P]
    best: Best


class TracedStep(TypedDict):
    """A step as a line of the trace has it: the drafted tokens, how many of them are in the text,
    which the rule relaxed, the two best logits and ids at each, and the emitted tokens."""

    drafted: list[int]
    kept: int
    relaxed: list[bool]
    z1: list[float | None]
    z2: list[float | None]
    id1: list[int]
    id2: list[int]
    emitted: list[int]


@dataclass
class TraceRecord:
    """A request that is being recorded. ``head``: the fields of the line that do not change."""

    head: dict[str, Any]
    max_tokens: int | None
    stops: frozenset[int]  # token ids that end the text
    steps: list[TracedStep] = field(default_factory=list)
    ended: bool = False

    def step(self, emitted: Sequence[int], judged: JudgedStep | None, rows: slice) -> None:
        """Adds one step: the emitted tokens, and the rows of this request. Synchronises with the
        device."""
        if self.ended or not emitted:
            return
        columns = (judged.drafted, judged.relaxed, judged.best.z, judged.best.ids) if judged else ()
        drafted, chosen, z, ids = [column[rows].tolist() for column in columns] or ([], [], [], [])
        inside = self._until_stop(emitted)
        accepted = min(len(emitted) - 1, len(inside))
        self.steps.append(
            {
                "drafted": drafted,
                "kept": accepted,
                "relaxed": [on and i < accepted for i, on in enumerate(chosen)],
                "z1": [_finite(row[0]) for row in z],
                "z2": [_finite(row[1]) for row in z],
                "id1": [row[0] for row in ids],
                "id2": [row[1] for row in ids],
                "emitted": inside,
            }
        )

    def _until_stop(self, emitted: Sequence[int]) -> list[int]:
        """Return the tokens up to the first stop token or the maximum length; vLLM drops the
        others."""
        before = sum(len(step["emitted"]) for step in self.steps)
        left = math.inf if self.max_tokens is None else self.max_tokens - before
        end = next((i + 1 for i, token in enumerate(emitted) if token in self.stops), len(emitted))
        self.ended = end < len(emitted) or emitted[end - 1] in self.stops or left <= len(emitted)
        return list(emitted[: int(min(end, left))])


class TracedEngine:
    """The plugin in one worker process: defaults, the sign that it is active, counters, and the
    requests that are being recorded.

    Of a tensor-parallel group only one rank counts and records.
    """

    def __init__(self, config: Any, runner: str) -> None:
        import vllm

        default = defaults(os.environ)
        self.served = served(config, default)
        self.path = os.environ.get("MARS_TRACE", "")
        rule = default_rule(default)
        _log.info(
            "mars-vllm %s is active: vLLM %s, runner %s, default rule %s.",
            __version__,
            vllm.__version__,
            runner,
            rule,
        )
        parallel, drafts, model = (
            config.parallel_config,
            config.speculative_config,
            config.model_config.model,
        )
        self.writes = parallel.rank % parallel.tensor_parallel_size == 0
        drafter = drafts and (
            drafts.method if drafts.model is None else f"{drafts.method}:{drafts.model}"
        )
        self.about = {"model": model, "drafter": drafter, "vllm": vllm.__version__}
        self.records: dict[str, TraceRecord] = {}
        atexit.register(lambda: self.finish(list(self.records)))
        judged, relaxed, enabled = _metrics()
        self._judged, self._relaxed = (
            each.labels(config.model_config.served_model_name) for each in (judged, relaxed)
        )
        enabled.labels(__version__, runner, rule).set(1)
        self._total: Tensor | None = None  # int64 [1] on the device
        self._copy, self._counted = torch.zeros(1, dtype=torch.int64), 0
        self._event: Any = None  # recorded after the copy of the total to the host

    def resolve(self, params: Any) -> RequestRule | None:
        """Return what a request with these sampling parameters specifies; it was validated when it
        was admitted."""
        try:
            return resolve(params, self.served)
        except ValueError:  # a request of vLLM's own, at its start
            return None

    def begin(
        self, request: str, wanted: RequestRule, params: Any, prompt: Sequence[int] | None
    ) -> None:
        """Starts recording a request."""
        head = {
            "format": FORMAT,
            "id": request,
            **self.about,
            "plugin": __version__,
            "rule": wanted.rule.name,
            "parameters": dict(wanted.values),
            "protected": list(wanted.group.protected),
            "scope": wanted.group.scope or "all",
            "temperature": params.temperature,
            "seed": params.seed,
            "prompt_ids": None if prompt is None else list(prompt),
        }
        stops = (
            frozenset(params.stop_token_ids or ())
            if params.ignore_eos
            else frozenset(params.all_stop_token_ids)
        )
        self.records[request] = TraceRecord(head, params.max_tokens, stops)

    def finish(self, requests: Iterable[str]) -> None:
        """Appends the lines of requests that were finished or aborted, one write each. A failure is
        logged and harms no request."""
        self._publish()
        for record in [
            self.records.pop(request) for request in requests if request in self.records
        ]:
            line = record.head | {"steps": record.steps, "finished": datetime.now(UTC).isoformat()}
            try:
                _append(self.path, (json.dumps(line, allow_nan=False) + "\n").encode())
            except OSError as error:
                _log.error(
                    "MARS could not write the trace of a request to %s: %s", self.path, error
                )

    def count(self, judged: int, relaxed: Tensor) -> None:
        """Adds drafted tokens, and kept ones that were relaxed (bool, any shape). Does not wait for
        the device."""
        self._judged.inc(judged)
        more = relaxed.sum()[None]
        self._total = more if self._total is None else self._total + more
        self._publish()

    def _publish(self) -> None:
        """Brings the counter up to the last count that has arrived on the host."""
        if self._total is None:
            return
        if not self._total.is_cuda:
            self._advance(int(self._total))
        elif self._event is None or self._event.query():
            if self._event is None:
                self._copy, self._event = self._copy.pin_memory(), torch.cuda.Event()
            else:
                self._advance(int(self._copy))
            self._copy.copy_(self._total, non_blocking=True)
            self._event.record()

    def _advance(self, total: int) -> None:
        self._relaxed.inc(total - self._counted)
        self._counted = total


def _append(path: str, data: bytes) -> None:
    """Append by one write; a line that does not fit on the disk is removed again."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = os.fstat(file).st_size
        if os.write(file, data) != len(data):
            os.ftruncate(file, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(file)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
