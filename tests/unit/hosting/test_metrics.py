"""/metrics: the numbers of the traces, under vLLM's names, and no label that a visitor could
choose."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from starlette.applications import Starlette
from starlette.testclient import TestClient

from hosting.metrics import OTHER, ServerMetrics, labels_of
from mars_core.models import BUNDLED_PAIR
from mars_core.rules import RULES
from mars_core.types import ModelRef, RuleConfig, Status, StopReason, Trace
from tests.traces import make_trace, make_tree_trace
from ui.kit.errors import fault

BY = {"model_name": "the/model", "rule": "mars"}  # labels


def observed(*traces: Trace) -> ServerMetrics:
    metrics = ServerMetrics({make_trace().config.target.name: "the/model"}, RULES)
    for trace in traces:
        metrics.observe(trace)
    return metrics


def value(metrics: ServerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def samples(metrics: ServerMetrics) -> list[Sample]:
    return [sample for family in metrics.registry.collect() for sample in family.samples]


@pytest.mark.parametrize("tree", [False, True])
def test_counts_are_those_of_the_summary(tree: bool) -> None:
    trace = make_tree_trace() if tree else make_trace(rule="mars", theta=0.6)
    metrics, summary = observed(trace, trace), trace.summary
    assert summary.relaxed and summary.recovered and summary.bonus and summary.tv_sum
    expected = {
        "vllm:prompt_tokens_total": summary.prompt_tokens,
        "vllm:generation_tokens_total": summary.new_tokens,
        "vllm:spec_decode_num_drafts_total": sum(step.drafted > 0 for step in trace.steps),
        "vllm:spec_decode_num_draft_tokens_total": summary.drafted,
        "vllm:spec_decode_num_accepted_tokens_total": summary.accepted + summary.relaxed,
        "mars:spec_decode_num_relaxed_tokens_total": summary.relaxed,
        "mars:spec_decode_num_recovered_tokens_total": summary.recovered,
        "mars:spec_decode_num_bonus_tokens_total": summary.bonus,
        "mars:total_variation_total": summary.tv_sum,
        "vllm:time_to_first_token_seconds_sum": summary.ttft_s,
        "vllm:e2e_request_latency_seconds_sum": summary.wall_s,
        "vllm:request_prefill_time_seconds_sum": summary.prefill_s,
        "vllm:request_decode_time_seconds_sum": summary.wall_s - summary.prefill_s,
    }
    for name, of_one in expected.items():
        assert value(metrics, name, **BY) == pytest.approx(2 * of_one), name
    assert value(metrics, "vllm:e2e_request_latency_seconds_count", **BY) == 2


def test_every_end_is_counted_in_vllms_words() -> None:
    ends = {"eos": "stop", "stop_string": "stop", "length": "length", "error": "error"}
    for reason in set(StopReason) - {StopReason.UNKNOWN}:  # which only records of servers have
        trace = replace(make_trace(), stop_reason=reason)
        metrics = observed(trace)
        by = BY | {"rule": "strict", "finished_reason": ends.get(reason.value, "abort")}
        assert value(metrics, "vllm:request_success_total", **by) == 1


def test_what_a_visitor_types_never_becomes_a_label() -> None:
    trace = make_trace()
    config = replace(trace.config, target=ModelRef("/home/zebra/model"), rule=RuleConfig("zebra"))
    metrics = observed(replace(trace, config=config))
    labels = [sample.labels for sample in samples(metrics)]
    assert {"model_name": OTHER, "rule": OTHER} in labels
    assert "zebra" not in repr(labels)


@pytest.mark.parametrize("missing", [math.nan, math.inf, -1.0])
def test_a_run_that_wrote_nothing_has_an_end_and_no_times(missing: float) -> None:
    trace = make_trace()
    summary = replace(trace.summary, new_tokens=0, tv_sum=missing, ttft_s=math.nan, steps=0)
    metrics = observed(
        replace(
            trace, status=Status.FAILED, stop_reason=StopReason.ERROR, steps=(), summary=summary
        )
    )
    names = {sample.name for sample in samples(metrics)}
    assert names and "vllm:time_to_first_token_seconds_count" not in names
    strict = BY | {"rule": "strict"}
    assert value(metrics, "mars:total_variation_total", **strict) == 0
    endless = observed(replace(trace, summary=replace(trace.summary, ttft_s=math.inf)))
    assert value(endless, "vllm:time_to_first_token_seconds_count", **strict) is None
    assert value(endless, "vllm:e2e_request_latency_seconds_count", **strict) == 1


def test_a_scrape_is_what_prometheus_reads_and_reads_the_queue() -> None:
    metrics = ServerMetrics({}, RULES, lambda: (1, 7))
    metrics.observe(make_trace())
    log = logging.getLogger("mars.faults")
    log.addHandler(metrics)
    try:
        fault(ValueError("zebra"), "test")
    finally:
        log.removeHandler(metrics)
    with TestClient(Starlette(routes=[metrics.route])) as client:
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    read = {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if not sample.labels
    }
    assert read["process_resident_memory_bytes"] > 0
    expected = {
        "vllm:num_requests_running": 1,
        "vllm:num_requests_waiting": 7,
        "mars:faults_total": 1,
    }
    assert read.items() >= expected.items()
    assert "zebra" not in answer.text
    assert "_created" not in answer.text


def test_labels_name_no_folder() -> None:
    targets = (
        ModelRef("owner/model", "abc"),
        ModelRef("/home/me/model"),
        ModelRef("bundled/target"),
    )
    pairs = [
        replace(BUNDLED_PAIR, target=target, key=key)
        for key, target in zip("abc", targets, strict=True)
    ]
    assert labels_of(pairs) == {
        "owner/model": "owner/model",
        "/home/me/model": "b",
        "bundled/target": "bundled/target",
    }
