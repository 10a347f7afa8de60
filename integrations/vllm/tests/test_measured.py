"""What the plugin keeps in vLLM beside our own engine, measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.common.report import ResultTable
from integrations.vllm.tests.running import PROMPTS, THETA, TOKENS, VllmRun
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, RuleConfig, Sampling

pytestmark = pytest.mark.vllm
KINDS = {"draft_model": "model", "eagle3": "eagle3", "ngram": "ngram"}


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
