"""Names of runs, models and states as the page writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from display.format import MISSING, displayable, plural, shorten
from display.names import rule_label, rule_title, value_text
from mars_core.drafting import DRAFTERS, described
from mars_core.rules import PLAIN
from mars_core.types import (
    PROTECTED,
    SERVER,
    UNKNOWN,
    DrafterConfig,
    Processors,
    RunConfig,
    StopReason,
)

LANE_NAMES = ("Baseline", "Lane 2", "Lane 3", "Lane 4")
STOP_TITLES = {
    StopReason.EOS: "ended by itself",
    StopReason.STOP_STRING: "ended at a stop string",
    StopReason.LENGTH: "reached the token limit",
    StopReason.CANCELLED: "stopped",
    StopReason.DEADLINE: "stopped: its time was up",
    StopReason.ERROR: "failed",
    StopReason.UNKNOWN: "end not known",
}


def drafter_title(kind: str) -> str:
    """Return ``N-gram lookup``, to stand alone."""
    title = described(kind).title
    return title[:1].upper() + title[1:]


def lane_label(config: RunConfig) -> str:
    """Return the rule of a run with its parameters; of a server also its model."""
    model = shorten(model_title(config.target.name), 60) if config.rule.name == SERVER else ""
    return f"{rule_label(config.rule.name, config.rule.parameters)} {model}".strip()


def lane_labels(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """Return the rules of the runs of one comparison with what else sets them apart: drafts of
    their own, a given beginning, addresses of several servers."""
    drafters = {each.drafter for each in configs if each.drafter.kind not in (PLAIN, SERVER)}
    differ, servers = len(drafters) > 1, sum(config.served for config in configs)
    extras = [
        [f"continued at {len(config.prefix)}"]
        if config.prefix
        else [shorten(config.environment[SERVER], 80)]
        if config.served and servers > 1
        else []
        for config in configs
    ]
    return tuple(
        ", ".join([lane_label(config), *(_draft(config.drafter) if differ else []), *extra])
        for config, extra in zip(configs, extras, strict=True)
    )


def run_names(configs: Sequence[RunConfig]) -> tuple[str, ...]:
    """Names that tell runs apart, as short as that allows; ``configs`` by lane."""
    rules = tuple(rule_title(config.rule.name) for config in configs)
    for names in (rules, tuple(map(lane_label, configs)), lane_labels(configs)):
        if len(set(names)) == len(names):
            return names
    sides = ("baseline", *(f"lane {lane}" for lane in range(2, len(configs) + 1)))
    labels = lane_labels(configs)
    return tuple(
        f"{label} ({side})" if labels.count(label) > 1 else label
        for label, side in zip(labels, sides, strict=True)
    )


def setting(value: float) -> str:
    """Return a number of a configuration; a dash where a server did not report it."""
    return MISSING if math.isnan(value) or value == UNKNOWN else value_text(value)


def processors_text(processors: Processors) -> str:
    """Return those that are on."""
    return ", ".join(
        f"{name.replace('_', ' ')} {' '.join(value) if name == 'protect' else value}"
        for name, value in processors.chosen.items()
    )


def settings_line(config: RunConfig) -> str:
    """Return what the runs of a comparison share, in one line."""
    sampling, drafter = config.sampling, config.drafter
    facts = [f"temperature {setting(sampling.temperature)}", f"seed {setting(config.seed)}"]
    facts += (
        [f"at most {plural(config.max_new_tokens, 'token')}"]
        if config.max_new_tokens != UNKNOWN
        else []
    )
    facts += [f"top-k {sampling.top_k}"] if sampling.top_k > 0 else []
    facts += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1 else []
    unusual = sampling.processors
    if unusual.protect == PROTECTED:
        unusual = replace(unusual, protect=())
    facts += [processors_text(unusual)] if unusual.chosen else []
    names = [ref.name for ref in (drafter.model, config.target) if ref]
    return displayable(" · ".join([*facts, *_draft(drafter), " → ".join(names), *_machine(config)]))


def model_title(name: str) -> str:
    """Return a Hub id, or the last two parts of a path."""
    return displayable("/".join(name.rstrip("/").split("/")[-2:]))


def exact_text(config: RunConfig) -> str:
    """Return the shapes of an exact run's passes; ``no`` and the reason where it was not exact;
    empty where that was not recorded."""
    return displayable(config.environment.get("exact", ""))


def draft_length(drafter: DrafterConfig) -> str:
    """Return the shape of the tree, or K; empty where nothing is drafted."""
    tree = drafter.tree
    if tree:
        return f"tree of {tree.tokens}, depth {tree.depth}, top-k {tree.top_k}"
    return str(drafter.k) if described(drafter.kind).chains else ""


def _draft(drafter: DrafterConfig) -> list[str]:
    kind = DRAFTERS.get(drafter.kind)
    if kind is None or not kind.chains:
        return []
    mode = f"{drafter.mode.value} " if len(kind.modes) > 1 else ""
    return [draft_length(drafter) if drafter.tree else f"K {drafter.k}", mode + kind.drafts]


def _machine(config: RunConfig) -> list[str]:
    exact = exact_text(config)
    known = [f"not exact{exact[2:]}" if exact.startswith("no") else "exact"] if exact else []
    return [
        config.environment[name] for name in ("device", "dtype") if name in config.environment
    ] + known
