"""A stored comparison as the form that repeats it: its pair, drafter, sampling and lanes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from evaluation.commands import model_name, pair_key
from mars_core.drafting import described
from mars_core.models import CUSTOM, PairSpec
from mars_core.rules import PLAIN
from mars_core.types import DrafterConfig, RunConfig, TreeShape
from storage import StoredComparison
from ui.settings.drafters import CHAIN, TREE
from ui.settings.form import MOST_LANES, DraftForm, Form, LaneForm
from ui.settings.readers import processor_values, thinking_word


def stored_form(stored: StoredComparison, catalog: Sequence[PairSpec]) -> Form:
    """The fields of Compare that repeat this comparison. Raises ValueError where it has no
    run, or goes on from earlier turns. What is not a field of the form, the machine and a
    continuation, is not in it."""
    config = richest(stored)
    if config is None:
        raise ValueError("This comparison has no run, so that there are no settings to load.")
    if "server" in config.environment:
        raise ValueError(
            "This is a run of a server, whose models are not loaded here; Compare cannot repeat it."
        )
    if config.prompt.history:
        raise ValueError(
            f"This is turn {len(config.prompt.history) + 1} of a conversation; Compare has no "
            "field for the turns before."
        )
    sampling, pair, draft = (
        config.sampling,
        pair_key(config, catalog) or CUSTOM,
        _draft(config.drafter),
    )
    return Form(
        prompt=stored.prompt.text,
        pair=pair,
        temperature=sampling.temperature,
        max_new_tokens=config.max_new_tokens,
        seed=config.seed,
        lanes=tuple(_lane(run.trace.config, draft) for run in stored.runs),
        system=stored.prompt.system,
        chat=stored.prompt.chat,
        thinking=thinking_word(config.prompt.thinking),
        stop="\n".join(stored.prompt.stop),
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        **processor_values(sampling.processors),
        repeats=1 + len(stored.repeats) // len(stored.runs) if stored.repeats else 0,
        **asdict(draft),
        **(_custom_models([run.trace.config for run in stored.runs]) if pair == CUSTOM else {}),
    )


def few(stored: StoredComparison, wanted: Collection[str]) -> StoredComparison:
    """At most as many runs as the page has lanes: a study compares more. Those that are wanted, by
    id, else the first ones."""
    if len(stored.runs) <= MOST_LANES:
        return stored
    chosen = [run for run in stored.runs if run.id in wanted] or stored.runs
    runs = tuple(replace(run, lane=lane) for lane, run in enumerate(chosen[:MOST_LANES]))
    return replace(stored, runs=runs, repeats=())


def richest(stored: StoredComparison) -> RunConfig | None:
    configs = sorted(
        (run.trace.config for run in stored.runs), key=lambda config: config.drafter.kind == PLAIN
    )
    return configs[0] if configs else None


def _draft(drafter: DrafterConfig) -> DraftForm:
    """The fields of a drafter; those that it does not take are as they come."""
    tree, kind = drafter.tree or TreeShape(), described(drafter.kind)
    shape = CHAIN if kind.trees and drafter.tree is None else TREE
    k = drafter.k if kind.chains and drafter.tree is None else DraftForm().k
    return DraftForm(
        drafter.kind, k, drafter.mode.value, shape, tree.tokens, tree.depth, tree.top_k
    )


def _lane(config: RunConfig, shared: DraftForm) -> LaneForm:
    """A lane with its drafter where that is not the one of the form."""
    values = _draft(config.drafter)
    shares = values == shared or config.rule.name == PLAIN
    return LaneForm(config.rule.name, {**config.rule.parameters}, None if shares else values)


def _custom_models(configs: Sequence[RunConfig]) -> dict[str, Any]:
    values: dict[str, Any] = {"own_target": model_name(configs[0].target)}
    for drafter in (config.drafter for config in configs):
        if drafter.model is not None:
            values[f"own_{described(drafter.kind).part}"] = model_name(drafter.model)
    return values
