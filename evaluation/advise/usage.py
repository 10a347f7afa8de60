"""How a setting is used: on the command line, on the page, in vLLM with mars-vllm."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from urllib.parse import urlencode

from evaluation.commands import comparison_commands
from evaluation.study.plan import BASELINE, Lane, Plan
from mars_core.drafting import described
from mars_core.drafting.model import MODEL
from mars_core.models import BUNDLED_PAIR, CATALOG
from mars_core.types import RuleConfig, RunConfig

SERVED = ("mars", "mars-gap")  # rules that mars-vllm has at any temperature
METHODS = {MODEL.name: "draft_model", "eagle3": "eagle3"}  # of vLLM
PROCESSOR = "mars_vllm.runner_v2:MarsProcessor"


def uses(plan: Plan, lane: Lane) -> dict[str, str]:
    """Command lines, and the query of an address of the page, by where they are used."""
    ways = {"command line": comparison_commands(_configs(plan, lane)), "page": _address(plan, lane)}
    return ways | ({"vLLM": command} if (command := _vllm(plan, lane)) else {})


def _configs(plan: Plan, lane: Lane) -> list[RunConfig]:
    """The first prompt, by strict and by the setting."""
    task = plan.task(0)
    config = RunConfig(
        prompt=plan.prompt(plan.item(task)),
        target=plan.models.target,
        drafter=replace(lane.drafter, model=described(lane.drafter.kind).model(plan.models)),
        rule=lane.rule,
        sampling=plan.sampling(task),
        max_new_tokens=plan.max_new_tokens,
        seed=plan.seed_of(task),
        environment={},
    )
    return [replace(config, rule=RuleConfig(BASELINE)), config]


def _address(plan: Plan, lane: Lane) -> str:
    prompt = plan.prompt(plan.item(plan.task(0))).text
    named = ",".join(f"{name}={value:g}" for name, value in lane.rule.parameters.items())
    pair = [("pair", plan.models.key)] if plan.models.key in {each.key for each in CATALOG} else []
    words = [("prompt", prompt), ("rule", BASELINE), ("rule", f"{lane.rule.name}({named})"), *pair]
    return f"?{urlencode(words)}"


def _vllm(plan: Plan, lane: Lane) -> str:
    """Empty for a rule, a drafter or models that it does not have."""
    model, drafter = described(lane.drafter.kind).model(plan.models), lane.drafter
    if lane.rule.name not in SERVED or drafter.kind not in METHODS or model is None:
        return ""
    if plan.models.key == BUNDLED_PAIR.key:
        return ""
    drafts = {
        "method": METHODS[drafter.kind],
        "model": model.name,
        "num_speculative_tokens": drafter.tree.depth if drafter.tree else drafter.k,
    }
    defaults = {"MARS_RULE": lane.rule.name} | {
        f"MARS_{name.upper()}": f"{value:g}" for name, value in lane.rule.parameters.items()
    }
    words = ["vllm", "serve", plan.models.target.name, "--speculative-config", json.dumps(drafts)]
    before = " ".join(f"{name}={value}" for name, value in defaults.items())
    return f"{before} {shlex.join([*words, '--logits-processors', PROCESSOR])}"
