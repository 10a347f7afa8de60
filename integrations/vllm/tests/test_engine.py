"""The plugin in vLLM, offline, beside vLLM without it and beside our own engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.common.report import ResultTable
from integrations.vllm.tests.conftest import PROMPTS, TOKENS, VllmLane, VllmRun
from mars_core.rules import RULES, Evidence
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, RuleConfig, Sampling

pytestmark = pytest.mark.vllm
THETA = 0.85
KINDS = {"draft_model": "model", "eagle3": "eagle3", "ngram": "ngram"}
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
REFUSED = {
    "theta is 2": (
        VllmLane(0.0, {"mars_theta": 2}, prompts=1),
        "theta is 2; rule mars takes 0 to 1.",
    ),
    "theta is nan": (
        VllmLane(0.0, {"mars_theta": float("nan")}, prompts=1),
        "theta is nan; rule mars takes 0 to 1.",
    ),
    "penalty": (
        VllmLane(0.0, {"mars_theta": 0.9}, (("repetition_penalty", 1.1),), 1),
        "repetition_penalty must be 1 with mars_rule mars, not 1.1.",
    ),
    "warm": (
        VllmLane(1.0, {"mars_rule": "topk-ratio"}, prompts=1),
        "temperature must be 0 with mars_rule topk-ratio, not 1.",
    ),
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


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, prompts: Any) -> dict[str, VllmRun]:
    more = {
        "mixed": VllmLane(0.0, MIXED),
        "typical": VllmLane(1.0, {"mars_rule": "typical", "mars_trace": 1}, (("top_p", 0.9),)),
    }
    refused = {name: lane for name, (lane, _) in REFUSED.items()}
    return {
        "draft_model": VllmRun(
            tmp_path_factory.mktemp("draft"),
            prompts,
            {"method": "draft_model"},
            lanes(0, 1) | more | refused,
        ),
        "eagle3": VllmRun(
            tmp_path_factory.mktemp("eagle3"), prompts, {"method": "eagle3"}, lanes(0, 1)
        ),
        "ngram": VllmRun(tmp_path_factory.mktemp("ngram"), prompts, {"method": "ngram"}, lanes(0)),
    }


@pytest.fixture(scope="module")
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
        name: replace(lane, sampling=(("max_tokens", 24),)) for name, lane in lanes(0, 1).items()
    }
    late = {
        "mixed": VllmLane(0.0, MIXED),
        "filtered": VllmLane(1.0, {"mars_rule": "typical"}, (("top_p", 0.9),), 1),
    }
    return VllmRun(tmp_path_factory.mktemp("v2"), prompts, job, wanted | late, **options)


def test_theta_1_is_vllm_without_the_plugin(stock: VllmRun, runs: dict[str, VllmRun]) -> None:
    for temperature in ("0", "1"):
        assert runs["draft_model"].ids(f"none {temperature}") == stock.ids(temperature)
        assert runs["draft_model"].ids(f"1 {temperature}") == stock.ids(temperature)
    for name, temperature in (("eagle3", "0"), ("eagle3", "1"), ("ngram", "0")):
        assert runs[name].ids(f"1 {temperature}") == runs[name].ids(f"none {temperature}")


def test_runner_v2_does_the_same(runs: dict[str, VllmRun], second: VllmRun) -> None:
    assert "runner V2" in second.log and "runner V1" in runs["draft_model"].log
    for temperature in ("0", "1"):
        assert second.ids(f"1 {temperature}") == second.ids(f"none {temperature}")
    for lane in ("none 0", "low 0"):
        assert second.ids(lane) == [ids[:24] for ids in runs["draft_model"].ids(lane)]
    assert second.ids("mixed") == runs["draft_model"].ids("mixed")
    assert (
        "top_p must be 1 with mars_rule typical, not 0.9." in second.batches["filtered"]["refused"]
    )


def expected(trace: dict[str, Any], step: dict[str, Any]) -> list[bool]:
    """Return which drafted tokens mars_core's rule keeps though strict does not surely, from the
    two best logits of the record.

    For rules that read no other logits.
    """
    z = torch.tensor([step["z1"], step["z2"]], dtype=torch.float64).T
    ids, x = torch.tensor([step["id1"], step["id2"]]).T, torch.tensor(step["drafted"])[:, None]
    one, nothing = torch.ones(len(x), 1), torch.zeros(len(x), 2000)
    evidence = Evidence(
        nothing,
        nothing,
        nothing,
        None,
        z,
        ids,
        None,
        x,
        one,
        one,
        torch.zeros_like(one),
        trace["temperature"] == 0,
    )
    keeps = RULES[trace["rule"]].accept(evidence, trace["parameters"])[:, 0] >= 1
    top = (
        x[:, 0] == ids[:, 0] if trace["temperature"] == 0 else torch.zeros(len(x), dtype=torch.bool)
    )
    return [bool(on) and i < step["kept"] for i, on in enumerate(keeps & ~top)]


def check_traces(run: VllmRun) -> tuple[int, int]:
    """Compares every line with the outputs and with vLLM's logits; judged and relaxed tokens of
    rules on two logits."""
    outputs = [each for batch in run.batches.values() for each in batch.get("outputs", ())]
    by_ids = {tuple(each["ids"]): each for each in outputs}
    judged = relaxed = 0
    for trace in run.traces:
        emitted = [token for step in trace["steps"] for token in step["emitted"]]
        best, position = by_ids[tuple(emitted)]["best"], 0
        for step in trace["steps"]:
            for i, _ in enumerate(step["emitted"]):
                if i < len(step["drafted"]):
                    (z1, id1), (z2, id2) = best[position][:2]
                    assert (step["z1"][i], step["z2"][i]) == pytest.approx((z1, z2), abs=1e-4)
                    assert (step["id1"][i], step["id2"][i]) == (id1, id2) or z1 == pytest.approx(
                        z2, abs=1e-4
                    )
                position += 1
            assert step["drafted"][: step["kept"]] == step["emitted"][: step["kept"]]
            if trace["rule"] in ("strict", "mars", "mars-gap") and step["drafted"]:
                assert step["relaxed"] == expected(trace, step)
                judged, relaxed = judged + len(step["drafted"]), relaxed + sum(step["relaxed"])
    return judged, relaxed


def test_relaxed_tokens_are_those_of_mars_core_on_the_recorded_rows(
    runs: dict[str, VllmRun], second: VllmRun, tables: list[ResultTable]
) -> None:
    checked = {name: check_traces(run) for name, run in {**runs, "draft_model, V2": second}.items()}
    rows = [(name, *counts) for name, counts in checked.items()]
    tables.append(
        ResultTable(
            ("run", "drafted tokens judged", "relaxed"),
            rows,
            "Decisions equal to those of mars_core on the recorded rows",
        )
    )
    assert all(
        relaxed for name, (_, relaxed) in checked.items() if name != "ngram"
    )  # n-grams rarely propose the second best
    assert [len(run.traces) for run in (*runs.values(), second)] == [
        4 * 16 + 14 + 16,
        4 * 16,
        2 * 16,
        4 * 16 + 14,
    ]


def test_requests_of_one_batch_have_separate_rules(runs: dict[str, VllmRun]) -> None:
    run = runs["draft_model"]
    together, strict, low = run.ids("mixed"), run.ids("none 0"), run.ids("low 0")
    for i, extra in enumerate(MIXED):
        if extra is None or extra.get("mars_theta") == 1.0 or extra.get("mars_rule") == "strict":
            assert together[i] == strict[i]
        elif extra.get("mars_theta") == THETA:
            assert together[i] == low[i]
    recorded = [
        trace for trace in run.traces if trace["rule"] in ("mars-gap", "topk-delta", "threshold")
    ]
    assert {trace["rule"]: trace["parameters"] for trace in recorded} == {
        "mars-gap": {"gap": 1.5},
        "topk-delta": {"n": 2.0, "delta": 0.6},
        "threshold": {"single": 0.2, "accumulated": 1.0},
    }
    for rule in ("mars-gap", "topk-delta", "threshold"):
        assert any(
            any(step["relaxed"])
            for trace in recorded
            if trace["rule"] == rule
            for step in trace["steps"]
        )


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    runs: dict[str, VllmRun], name: str
) -> None:
    assert runs["draft_model"].batches[name]["refused"].endswith(REFUSED[name][1])


def test_above_temperature_0_the_cpu_build_is_refused_unless_repaired(
    tmp_path: Path, prompts: Any, stock: VllmRun
) -> None:
    """Stock vLLM draws other tokens there, which is the defect; a rule is refused unless the repair
    is requested."""
    wanted = {"none": VllmLane(1.0), "low": VllmLane(1.0, {"mars_theta": THETA}, prompts=1)}
    run = VllmRun(tmp_path, prompts, {"method": "draft_model"}, wanted, MARS_MEND_CPU="")
    assert (
        "loses the temperature of speculative decoding. Start it with MARS_MEND_CPU=1"
        in run.batches["low"]["refused"]
    )
    assert run.ids("none") != stock.ids("1")


def test_a_verifier_that_would_not_be_the_rule_stops_vllm(tmp_path: Path, prompts: Any) -> None:
    job = {"method": "draft_model", "drafting": {"rejection_sample_method": "block"}}
    message = (
        "rejection_sample_method of --speculative-config must be standard with mars_rule mars, "
        "not block."
    )
    with pytest.raises(AssertionError, match=message):
        VllmRun(tmp_path, prompts, job, {"none": VllmLane(0.0)}, MARS_THETA="0.9")


def test_texts_and_acceptance_lengths_are_those_of_our_engine(
    runs: dict[str, VllmRun], pair: Any, tables: list[ResultTable]
) -> None:
    """Compare at temperature 0. Our engine is given vLLM's first token, which comes from the
    prefill there, so that drafts begin alike."""
    session, rows = Session(pair), []
    for name, kind in KINDS.items():
        for lane, rule in (
            ("1 0", RuleConfig("mars", {"theta": 1.0})),
            ("low 0", RuleConfig("mars", {"theta": THETA})),
        ):
            same, ours, steps = 0, 0, 0
            for prompt, ids in zip(PROMPTS, runs[name].ids(lane), strict=True):
                config = run_config(
                    pair,
                    prompt=prompt,
                    rule=rule,
                    drafter=DrafterConfig(kind, k=5),
                    sampling=Sampling(0.0),
                    max_new_tokens=TOKENS - 1,
                    seed=0,
                )
                run = session.start(replace(config, prefix=tuple(ids[:1])))
                drafting = [step for step in run if step.drafted]
                same += [*ids[:1], *run.trace().token_ids] == ids
                ours, steps = (
                    ours + sum(len(step.emitted) for step in drafting),
                    steps + len(drafting),
                )
            traces = [
                trace
                for trace in runs[name].traces
                if trace["parameters"] == rule.parameters and not trace["temperature"]
            ]
            theirs = [
                len(step["emitted"])
                for trace in traces[: len(PROMPTS)]
                for step in trace["steps"]
                if step["drafted"]
            ]
            rows.append(
                (name, rule.parameters["theta"], ours / steps, sum(theirs) / len(theirs), same)
            )
    heads = ("drafter", "θ", "ours", "vLLM", "equal texts")
    title = "Tokens of the text per step with a draft, and texts, beside our engine; temperature 0, the same first token"
    tables.append(
        ResultTable(
            heads,
            rows,
            title,
            ["Our last draft is as short as the rest of the text; vLLM's is cut after the fact."],
        )
    )
    assert all(row[-1] == len(PROMPTS) for row in rows if row[1] == 1)
    assert all(row[-1] >= len(PROMPTS) - 2 for row in rows), rows


def test_lanes_are_measured(
    runs: dict[str, VllmRun], second: VllmRun, tables: list[ResultTable]
) -> None:
    """Mean acceptance lengths of vLLM's counters; θ below 1 keeps at least as many tokens at
    temperature 0."""
    rows = []
    for name, run in {**runs, "draft_model, V2": second}.items():
        for lane in [lane for lane in run.batches if lane.split()[0] in ("none", "1", "low")]:
            theta, temperature = lane.split()
            changed = sum(
                a != b for a, b in zip(run.ids(lane), run.ids(f"none {temperature}"), strict=True)
            )
            tokens = sum(map(len, run.ids(lane)))
            rows.append(
                (
                    name,
                    float(temperature),
                    {"none": "–", "low": str(THETA)}.get(theta, theta),
                    run.length(lane),
                    tokens,
                    changed,
                )
            )
        assert run.length("low 0") >= run.length("none 0")
    heads = ("run", "temperature", "θ", "mean acceptance length", "tokens", "texts changed")
    tables.append(ResultTable(heads, rows, "vLLM's mean acceptance length"))
