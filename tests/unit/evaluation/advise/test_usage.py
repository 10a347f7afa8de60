"""How a setting is used elsewhere."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from evaluation.advise.usage import PROCESSOR, uses
from evaluation.plan.lane import Lane
from mars_core.models.smollm2 import NAME
from mars_core.models.source import folder_of
from mars_core.types import DrafterConfig, ModelRef, RuleConfig, TreeShape
from tests.reports import make_plan

PLAN = make_plan()
MARS, CHAIN = RuleConfig("mars", {"theta": 0.85}), DrafterConfig(k=3)


def vllm(rule: RuleConfig = MARS, drafter: DrafterConfig = CHAIN, **models: Any) -> str | None:
    plan = replace(PLAN, models=replace(PLAN.models, **models))
    return uses(plan, Lane(rule, drafter)).get("vLLM")


def test_vllm_gets_the_rule_the_models_and_the_length_of_drafts() -> None:
    target, draft = ModelRef("bundled/target"), ModelRef("bundled/draft")
    command = vllm(target=target, draft=draft)
    assert command is not None
    *variables, name, verb, model, option, drafts, processors, processor = shlex.split(command)
    assert variables == ["MARS_RULE=mars", "MARS_THETA=0.85"]
    assert [name, verb, model] == ["vllm", "serve", str(folder_of(target))]
    assert [option, processors, processor] == [
        "--speculative-config",
        "--logits-processors",
        PROCESSOR,
    ]
    assert json.loads(drafts) == {
        "method": "draft_model",
        "model": str(folder_of(draft)),
        "num_speculative_tokens": 3,
    }
    tree = vllm(drafter=DrafterConfig("eagle3", tree=TreeShape(12, 6, 2)))
    assert tree is not None and '"num_speculative_tokens": 6' in tree and "demo/eagle3" in tree


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": RuleConfig("topk-delta")},
        {"rule": RuleConfig("mars", {"theta": "0.9 - 0.1*min(1, entropy)"})},
        {"drafter": DrafterConfig("ngram")},
        {"target": ModelRef(NAME)},
    ],
)
def test_vllm_gets_nothing_that_it_does_not_have(changed: dict[str, Any]) -> None:
    assert vllm(**changed) is None
