"""``/metrics`` for Prometheus: counts of runs, with vLLM's names for metrics that vLLM has, else
with the prefix ``mars:``.

Totals of ended runs. Labels are the name of a catalog model and of a rule, each ``other`` if it is
not known at the start, so that visitors' input cannot become a label.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial

import prometheus_client as prometheus
from prometheus_client import Counter, Gauge, Histogram
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mars_core.models import PairSpec
from mars_core.types import StopReason, Trace

OTHER = "other"
POSITIONS = 64  # draft positions with separate counts; deeper ones are in the totals only
_BY = ("model_name", "rule")
_SHORT_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_LONG_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_TOKEN_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_REASONS: Mapping[StopReason, str] = {  # values of vLLM's label
    StopReason.EOS: "stop",
    StopReason.STOP_STRING: "stop",
    StopReason.LENGTH: "length",
    StopReason.CANCELLED: "abort",
    StopReason.DEADLINE: "abort",
    StopReason.ERROR: "error",
}
_LINE = {
    "vllm:num_requests_running": "Visitors whose request computes now.",
    "vllm:num_requests_waiting": "Visitors who wait for their turn.",
}
# Name → help, and the values of a run that are added.
_COUNTS: Mapping[str, tuple[str, *tuple[str, ...]]] = {
    "vllm:prompt_tokens": ("Tokens of prompts.", "prompt_tokens"),
    "vllm:generation_tokens": ("New tokens.", "new_tokens"),
    "vllm:spec_decode_num_drafts": ("Steps that verified a draft.", "drafts"),
    "vllm:spec_decode_num_draft_tokens": ("Drafted tokens; of a tree all nodes.", "drafted"),
    "vllm:spec_decode_num_accepted_tokens": (
        "Drafted tokens that were accepted, relaxed ones included.",
        "accepted",
        "relaxed",
    ),
    "mars:spec_decode_num_relaxed_tokens": (
        "Accepted drafted tokens that the strict rule would have rejected.",
        "relaxed",
    ),
    "mars:spec_decode_num_recovered_tokens": ("Tokens sampled after a rejection.", "recovered"),
    "mars:spec_decode_num_bonus_tokens": (
        "Tokens sampled after a fully accepted draft, or without a draft.",
        "bonus",
    ),
    "mars:total_variation": (
        "Sum over new tokens of the total variation between the token's distribution and the "
        "target's own, or of its upper bound; missing ones are left out.",
        "tv_sum",
    ),
}


# Name → help, buckets, seconds of one run. Time in the queue is not included.
_TIMES: Mapping[str, tuple[str, tuple[float, ...], str]] = {
    "vllm:time_to_first_token_seconds": ("Of a run: its first new token.", _SHORT_S, "ttft_s"),
    "vllm:e2e_request_latency_seconds": ("Of a run: its last token.", _LONG_S, "wall_s"),
    "vllm:request_prefill_time_seconds": ("Of a run: the prompt.", _SHORT_S, "prefill_s"),
    "vllm:request_decode_time_seconds": ("Of a run: all after the prompt.", _LONG_S, "decode_s"),
    "vllm:request_time_per_output_token_seconds": (
        "Of a run: a token after the first step.",
        _TOKEN_S,
        "token_s",
    ),
}


def _values(run: Trace) -> dict[str, float]:
    """Return what the tables above name. ``token_s``: nan without a token after the first step."""
    summary = run.summary
    later = summary.new_tokens - sum(len(step.emitted) for step in run.steps[:1])
    return asdict(summary) | {
        "drafts": sum(step.drafted > 0 for step in run.steps),
        "decode_s": summary.wall_s - summary.prefill_s,
        "token_s": (summary.wall_s - summary.ttft_s) / later if later else math.nan,
    }


class ServerMetrics(logging.Handler):
    """Thread-safe. ``models``: target name in runs → label; ``rules``: names used as labels;
    ``line``: number of running and of waiting requests, called at each scrape. As a handler of the
    log ``mars.faults`` it counts its errors."""

    def __init__(
        self,
        models: Mapping[str, str],
        rules: Iterable[str],
        line: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        super().__init__(logging.ERROR)
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # omit the creation times of counters
        self._models, self._rules = dict(models), frozenset(rules)
        self.registry = here = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=here)
        for at, metric in enumerate(_LINE):
            gauge = Gauge(metric, _LINE[metric], registry=here)
            gauge.set_function(partial(lambda at: line()[at], at))
        ended = "Runs that ended, whichever way."
        self._ended = Counter(
            "vllm:request_success", ended, (*_BY, "finished_reason"), registry=here
        )
        accepted = "Drafts of which the token at this position, from 0, was accepted."
        by_position = "vllm:spec_decode_num_accepted_tokens_per_pos"
        self._accepted_at = Counter(by_position, accepted, (*_BY, "position"), registry=here)
        self._counts = [
            (Counter(name, text, _BY, registry=here), of) for name, (text, *of) in _COUNTS.items()
        ]
        self._times = [
            (Histogram(name, text, _BY, buckets=buckets, registry=here), of)
            for name, (text, buckets, of) in _TIMES.items()
        ]
        self._faults = Counter(
            "mars:faults", "Errors of this program, each with an id in the log.", registry=here
        )

    def emit(self, record: logging.LogRecord) -> None:
        del record
        self._faults.inc()

    def observe(self, trace: Trace) -> None:
        """Count an ended run; call it once per run. A run without a token has no times."""
        rule = trace.config.rule.name
        by = (
            self._models.get(trace.config.target.name, OTHER),
            rule if rule in self._rules else OTHER,
        )
        self._ended.labels(*by, _REASONS[trace.stop_reason]).inc()
        values = _values(trace)
        for counter, added in self._counts:
            value = sum(values[name] for name in added)  # counters must not decrease or become nan
            counter.labels(*by).inc(value if math.isfinite(value) and value > 0 else 0.0)
        for position, count in enumerate(_accepted_at(trace)):
            self._accepted_at.labels(*by, str(position)).inc(count)
        for histogram, of in self._times if trace.summary.new_tokens else ():
            if math.isfinite(values[of]):
                histogram.labels(*by).observe(values[of])

    async def answer(self, _request: Request) -> Response:
        text = prometheus.generate_latest(self.registry)
        return Response(
            text, media_type=prometheus.CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"}
        )

    @property
    def route(self) -> BaseRoute:
        return Route("/metrics", self.answer, name="metrics")


def _accepted_at(trace: Trace) -> list[int]:
    """Steps that accepted a drafted token at each of the first POSITIONS depths."""
    deepest = min(max((step.kept for step in trace.steps), default=0), POSITIONS)
    return [sum(step.kept > position for step in trace.steps) for position in range(deepest)]


def labels_of(pairs: Iterable[PairSpec]) -> dict[str, str]:
    """Names of the targets → labels: the name, for a folder the key of the pair."""
    names = {pair.target.name: pair.key for pair in pairs}
    return {name: key if name.startswith(("/", ".", "~")) else name for name, key in names.items()}
