"""Names of rules, parameters and states as the page writes them, in one place."""

from __future__ import annotations

from mars_core.types import RunConfig, StopReason, Trace
from ui.format import displayable

PLAIN = "none"  # the rule chooser's name for plain decoding of the target: no drafter
_RULES = {
    PLAIN: "Target alone",
    "strict": "Strict",
    "mars": "MARS",
    "mars-algorithm1": "MARS, Algorithm 1",
    "mars-gap": "MARS, gap",
}
_PARAMETERS = {"theta": "θ", "gap": "g"}
_STOPS = {
    StopReason.EOS: "ended by itself",
    StopReason.STOP_STRING: "ended at a stop string",
    StopReason.LENGTH: "reached the token limit",
    StopReason.CANCELLED: "stopped",
    StopReason.ERROR: "failed",
}


def rule_title(name: str) -> str:
    return _RULES.get(name, name)


def parameter_title(name: str) -> str:
    return _PARAMETERS.get(name, name)


def stop_title(reason: StopReason) -> str:
    return _STOPS[reason]


def lane_title(config: RunConfig) -> str:
    """The rule of a run without its parameters; ``Target alone`` where nothing is drafted."""
    return rule_title(PLAIN if config.drafter.kind == "none" else config.rule.name)


def lane_label(config: RunConfig) -> str:
    """The rule of a run with its parameters: ``MARS θ = 0.9``."""
    if config.drafter.kind == "none":
        return rule_title(PLAIN)
    values = ", ".join(f"{parameter_title(name)} = {value:g}" for name, value in config.rule.parameters.items())
    return f"{rule_title(config.rule.name)} {values}".strip()


def pair_labels(left: Trace, right: Trace) -> tuple[str, str]:
    """Names that tell two runs apart, as short as that allows."""
    titles = lane_title(left.config), lane_title(right.config)
    if titles[0] != titles[1]:
        return titles
    labels = lane_label(left.config), lane_label(right.config)
    return labels if labels[0] != labels[1] else (f"{labels[0]} (left)", f"{labels[1]} (right)")


def settings_line(config: RunConfig) -> str:
    """What both runs of a comparison share, in one line."""
    sampling, drafter = config.sampling, config.drafter
    facts = [f"temperature {sampling.temperature:g}", f"seed {config.seed}", f"at most {config.max_new_tokens} tokens"]
    facts += [f"top-k {sampling.top_k}"] if sampling.top_k else []
    facts += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1 else []
    facts += [f"K {drafter.k}", f"{drafter.mode.value} drafts"] if drafter.kind == "model" else []
    facts += [f"K {drafter.k}", "n-gram drafts"] if drafter.kind == "ngram" else []
    names = [ref.name for ref in (drafter.model, config.target) if ref]
    return displayable(" · ".join([*facts, " → ".join(names), *_machine(config)]))


def _machine(config: RunConfig) -> list[str]:
    return [config.environment[name] for name in ("device", "dtype") if name in config.environment]
