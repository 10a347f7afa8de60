"""How a setting is used: on the command line, on the page, in vLLM with mars-vllm."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from urllib.parse import urlencode

from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from mars_core.drafting import described
from mars_core.models import CATALOG
from mars_core.models.source import folder_of, is_folder, is_local
from mars_core.rules import reads_score
from mars_core.settings.links import address_words
from mars_core.settings.recorded import REPEATED, plain, settings_of
from mars_core.types import (
    SAMPLER,
    ModelRef,
    RuleConfig,
    RunConfig,
    numbers,
    value_text,
)

# Of the rules with a margin threshold, those that mars-vllm has at any temperature.
SERVED = ("mars", "mars-gap")
PROCESSOR = "mars_vllm.runner_v2:MarsProcessor"


def uses(plan: Plan, lane: Lane) -> dict[str, str]:
    """Return what is given to a program, and the query of an address of the page, by where it is
    used."""
    configs = _configs(plan, lane)
    settings = settings_of(configs)
    if plan.models.key in {each.key for each in CATALOG}:
        settings = replace(settings, pair=plan.models.key, target="", draft="", head="")
    ways = {
        "command line": f"{REPEATED}: {json.dumps(plain(settings))}",
        "page": f"?{urlencode(address_words(settings), doseq=True)}",
    }
    return ways | ({"vLLM": command} if (command := _vllm(plan, lane)) else {})


def _configs(plan: Plan, lane: Lane) -> list[RunConfig]:
    """Return the first prompt, by strict and by the setting."""
    task, environment = plan.task(0), {"sampler": SAMPLER}
    if (model := plan.models.classifier) and reads_score(lane.rule):
        environment["classifier"] = f"{model.name}@{model.revision or ''}"
    config = RunConfig(
        prompt=plan.prompt(plan.item(task)),
        target=plan.models.target,
        drafter=replace(lane.drafter, model=described(lane.drafter.kind).model(plan.models)),
        rule=lane.rule,
        sampling=plan.sampling(task, lane),
        max_new_tokens=plan.max_new_tokens,
        seed=plan.seed_of(task),
        environment=environment,
    )
    return [replace(config, rule=RuleConfig(BASELINE)), config]


def _vllm(plan: Plan, lane: Lane) -> str:
    """Empty for a rule, a drafter or models that it does not have."""
    kind, drafter = described(lane.drafter.kind), lane.drafter
    model = kind.model(plan.models)
    served = lane.rule.name in SERVED and numbers(lane.rule.parameters) == lane.rule.parameters
    models = [_opened_by_vllm(each) for each in (plan.models.target, model) if each]
    if not (served and kind.vllm and model and all(models)):
        return ""
    drafts = {
        "method": kind.vllm,
        "model": models[1],
        "num_speculative_tokens": drafter.tree.depth if drafter.tree else drafter.k,
    }
    defaults = {"MARS_RULE": lane.rule.name} | {
        f"MARS_{name.upper()}": value_text(value) for name, value in lane.rule.parameters.items()
    }
    words = ["vllm", "serve", models[0], "--speculative-config", json.dumps(drafts)]
    before = " ".join(f"{name}={value}" for name, value in defaults.items())
    return f"{before} {shlex.join([*words, '--logits-processors', PROCESSOR])}"


def _opened_by_vllm(model: ModelRef) -> str:
    """Return a Hub id or a folder; empty for a GGUF file."""
    if not is_local(model):
        return model.name
    folder = folder_of(model)
    return str(folder) if is_folder(folder) else ""
