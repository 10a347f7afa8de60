"""How a setting is used: on the command line, on the page, in vLLM with mars-vllm."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, replace
from urllib.parse import urlencode

from evaluation.commands import comparison_commands, model_name
from evaluation.study.plan import BASELINE, Lane, Models, Plan
from mars_core.drafting import described
from mars_core.models import CATALOG
from mars_core.models.source import folder_of, is_folder, is_local
from mars_core.rules import PLAIN, reads_score
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
    """Command lines, and the query of an address of the page, by where they are used."""
    strict, setting = _configs(plan, lane)
    address = _address(setting, plan.models)
    ways = {"command line": comparison_commands([strict, setting]), "page": address}
    return ways | ({"vLLM": command} if (command := _vllm(plan, lane)) else {})


def _configs(plan: Plan, lane: Lane) -> list[RunConfig]:
    """The first prompt, by strict and by the setting."""
    task = plan.task(0)
    config = RunConfig(
        prompt=plan.prompt(plan.item(task)),
        target=plan.models.target,
        drafter=replace(lane.drafter, model=described(lane.drafter.kind).model(plan.models)),
        rule=lane.rule,
        sampling=plan.sampling(task, lane),
        max_new_tokens=plan.max_new_tokens,
        seed=plan.seed_of(task),
        environment={"sampler": SAMPLER} | _read_classifier(plan, lane),
    )
    return [replace(config, rule=RuleConfig(BASELINE)), config]


def _read_classifier(plan: Plan, lane: Lane) -> dict[str, str]:
    """As runs record it."""
    model = plan.models.classifier if reads_score(lane.rule) else None
    return {"classifier": f"{model.name}@{model.revision or ''}"} if model else {}


def _address(config: RunConfig, models: Models) -> str:
    """By the names of the fields of the page, which has lists one a line."""
    drafter, sampling, prompt = config.drafter, config.sampling, config.prompt
    processors = sampling.processors
    named = ",".join(
        f"{name}={value_text(value)}" for name, value in config.rule.parameters.items()
    )
    setting = f"{config.rule.name}({named})" if named else config.rule.name
    fields: dict[str, object] = {"pair": models.key}
    if models.key not in {each.key for each in CATALOG}:
        own = {"target": models.target, "draft": models.draft, "head": models.head}
        fields |= {f"own_{name}": model_name(each) for name, each in own.items() if each}
    if tree := drafter.tree:
        fields |= {"shape": "tree"} | {f"tree_{name}": n for name, n in asdict(tree).items()}
    else:
        fields |= {"k": drafter.k} | ({"shape": "chain"} if described(drafter.kind).trees else {})
    fields |= {"drafter": drafter.kind, "mode": drafter.mode, "system": prompt.system}
    fields |= {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
    }
    fields |= processors.chosen | {
        "logit_bias": "\n".join(f"{word}={value}" for word, value in processors.logit_bias),
        "protect": "\n".join(processors.protect) or PLAIN,
        "chat": "" if prompt.chat else "False",
        "thinking": {None: "", True: "on", False: "off"}[prompt.thinking],
        "stop": "\n".join(prompt.stop),
    }
    fields |= {"max_new_tokens": config.max_new_tokens, "seed": config.seed}
    given = [(name, value) for name, value in fields.items() if value != ""]
    words = [("prompt", prompt.text), ("rule", BASELINE), ("rule", setting), *given]
    return f"?{urlencode(words)}"


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
    """A Hub id or a folder; empty for a GGUF file."""
    if not is_local(model):
        return model.name
    folder = folder_of(model)
    return str(folder) if is_folder(folder) else ""
