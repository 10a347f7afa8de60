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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import torch
from prometheus_client import Counter, Gauge
from torch import Tensor

from mars_vllm import __version__
from mars_vllm.arguments import RequestRule
from mars_vllm.judging import Best

FORMAT = "mars-vllm-1"
_log = logging.getLogger("vllm.mars")  # vLLM configures the handlers of its name


@functools.cache
def _metrics() -> tuple[Counter, Counter, Gauge]:
    """In the style of vLLM's own, once per process."""
    labels = ("model_name",)
    return (
        Counter("vllm:mars_judged_tokens", "Drafted tokens of requests with a rule.", labels),
        Counter(
            "vllm:mars_relaxed_tokens", "Drafted tokens that the rule kept and strict would not surely keep.", labels
        ),
        Gauge(
            "vllm:mars_enabled", "1 if the plugin is active.", ("version", "runner", "rule"), multiprocess_mode="max"
        ),
    )


class Judged(NamedTuple):
    """The rows of one step that have a drafted token, and what was decided on them."""

    drafted: Tensor  # int64 [P]
    relaxed: Tensor  # bool [P]
    best: Best


@dataclass
class Record:
    """A request that is being recorded. ``head``: the fields of the line that do not change."""

    head: dict[str, Any]
    max_tokens: int | None
    stops: frozenset[int]  # token ids that end the text
    steps: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False

    def step(self, emitted: Sequence[int], judged: Judged | None, rows: slice) -> None:
        """Adds one step: the emitted tokens, and the rows of this request. Synchronises with the device."""
        if self.ended or not emitted:
            return
        columns = (judged.drafted, judged.relaxed, judged.best.z, judged.best.ids) if judged else ()
        drafted, chosen, z, ids = [column[rows].tolist() for column in columns] or ([], [], [], [])
        inside = self._until_stop(emitted)
        kept = min(len(emitted) - 1, len(inside))
        self.steps.append(
            {
                "drafted": drafted, "kept": kept,
                "relaxed": [on and i < kept for i, on in enumerate(chosen)],
                "z1": [_finite(row[0]) for row in z], "z2": [_finite(row[1]) for row in z],
                "id1": [row[0] for row in ids], "id2": [row[1] for row in ids], "emitted": inside,
            }
        )  # fmt: skip

    def _until_stop(self, emitted: Sequence[int]) -> list[int]:
        """The tokens up to the first stop token or the maximum length; vLLM drops the others."""
        before = sum(len(step["emitted"]) for step in self.steps)
        left = math.inf if self.max_tokens is None else self.max_tokens - before
        end = next((i + 1 for i, token in enumerate(emitted) if token in self.stops), len(emitted))
        self.ended = end < len(emitted) or emitted[end - 1] in self.stops or left <= len(emitted)
        return list(emitted[: int(min(end, left))])


class Recorder:
    """The trace file and the counters of one engine. ``about``: model, drafter and version of vLLM."""

    def __init__(self, path: str, about: Mapping[str, Any], runner: str, default: str) -> None:
        self.path, self.about = path, dict(about)
        atexit.register(self.close)
        self.records: dict[str, Record] = {}
        judged, kept, enabled = _metrics()
        self._judged, self._relaxed = judged.labels(about["model"]), kept.labels(about["model"])
        enabled.labels(__version__, runner, default).set(1)
        self._total: Tensor | None = None  # int64 [1] on the device
        self._copy, self._seen = torch.zeros(1, dtype=torch.int64), 0
        self._event: Any = None  # recorded after the copy of the total to the host

    def begin(self, request: str, wanted: RequestRule, params: Any, prompt: Sequence[int] | None) -> None:
        """Starts recording a request."""
        head = {
            "format": FORMAT, "id": request, **self.about, "plugin": __version__, "rule": wanted.rule.name,
            "parameters": dict(wanted.values), "temperature": params.temperature, "seed": params.seed,
            "prompt_ids": None if prompt is None else [int(token) for token in prompt],
        }  # fmt: skip
        stops = frozenset(params.stop_token_ids or ()) if params.ignore_eos else frozenset(params.all_stop_token_ids)
        self.records[request] = Record(head, params.max_tokens, stops)

    def finish(self, request: str) -> None:
        """Appends the line of a finished or aborted request in one write. A failure is logged and harms no request."""
        record = self.records.pop(request, None)
        if record is None:
            return
        line = json.dumps(
            record.head | {"steps": record.steps, "finished": datetime.now(UTC).isoformat()}, allow_nan=False
        )
        try:
            _append(self.path, (line + "\n").encode())
        except OSError as error:
            _log.error("MARS could not write the trace of a request to %s: %s", self.path, error)

    def close(self) -> None:
        """Writes what is left, at the end of the process."""
        for request in list(self.records):
            self.finish(request)

    def count(self, judged: int, relaxed: Tensor) -> None:
        """Adds drafted tokens, and kept ones that were relaxed (bool, any shape). Does not wait for the device."""
        self._judged.inc(judged)
        more = relaxed.sum()
        self._total = more[None] if self._total is None else self._total + more
        self.publish()

    def publish(self) -> None:
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
        self._relaxed.inc(total - self._seen)
        self._seen = total


def _append(path: str, data: bytes) -> None:
    """One write; a line that does not fit on the disk is removed again."""
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
