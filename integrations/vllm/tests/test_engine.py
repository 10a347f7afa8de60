"""The plugin in vLLM, offline, beside vLLM without it and beside our own engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from bench.common.report import ResultTable
from integrations.vllm.tests.running import (
    SCOPES,
    THETA,
    WEIGHTS,
    VllmLane,
    VllmRun,
)
from mars_core.rules import RULES, Evidence
from mars_core.rules.expression import Span, parse

pytestmark = pytest.mark.vllm


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
    for lane in ("late", "phase 0"):
        assert second.ids(lane) == [ids[:24] for ids in runs["draft_model"].ids(lane)]
    assert (
        "top_p must be 1 with mars_rule typical, not 0.9." in second.batches["filtered"]["refused"]
    )


def allowed(trace: dict[str, Any], drafted: int, text: list[int]) -> bool:
    """Return whether the rule may decide the drafted token after prompt and ``text``."""
    encode = Tokenizer.from_file(str(WEIGHTS / "target" / "tokenizer.json")).encode
    span = Span(*(encode(word, add_special_tokens=False).ids[0] for word in (".", ",")))
    known = {
        "position": torch.tensor([[float(len(text))]]),
        "thinking": torch.tensor([[float(span.inside([*trace["prompt_ids"], *text]))]]),
    }
    inside = trace["scope"] == "all" or parse(trace["scope"]).value(known) > 0
    return bool(inside) and drafted not in trace["protected"]


def expected(trace: dict[str, Any], step: dict[str, Any], text: list[int]) -> list[bool]:
    """Return which drafted tokens mars_core's rule keeps after ``text`` though strict does not
    surely, from the two best logits of the record.

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
    drafted = step["drafted"]
    return [
        bool(on) and i < step["kept"] and allowed(trace, drafted[i], text + drafted[:i])
        for i, on in enumerate(keeps & ~top)
    ]


def check_traces(run: VllmRun) -> tuple[int, int]:
    """Compares every line with the outputs and with vLLM's logits; judged and relaxed tokens of
    rules on two logits."""
    outputs = [each for batch in run.batches.values() for each in batch.get("outputs", ())]
    by_ids = {tuple(each["ids"]): each for each in outputs}
    judged = relaxed = 0
    for trace in run.traces:
        emitted = [token for step in trace["steps"] for token in step["emitted"]]
        best, position = by_ids[tuple(emitted)]["best"], 0
        assert {0, 1} <= {*trace["protected"]}  # the beginning and the end of a text
        for step in trace["steps"]:
            text = emitted[:position]
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
                assert step["relaxed"] == expected(trace, step, text)
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
        4 * 16 + 14 + 16 + 8 * len(SCOPES),
        4 * 16,
        2 * 16,
        4 * 16 + 14 + 8 * len(SCOPES),
    ]
    for run in (runs["draft_model"], second):
        for scope in ("position >= 8", "thinking('.', ',')"):
            steps = [
                step for trace in run.traces if trace["scope"] == scope for step in trace["steps"]
            ]
            assert any(any(step["relaxed"]) for step in steps)


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
