"""A stored comparison as the page shows it: the result from its traces alone, its settings, and the form that would ask for it again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from mars_core.models import PairSpec
from mars_core.rules import PLAIN
from mars_core.types import DrafterConfig, RunConfig, TreeShape
from storage import StoredComparison
from ui.kit.format import count, shorten
from ui.kit.labels import lane_labels, settings_line
from ui.result.repeat import model_name, pair_key
from ui.result.result import Result, ended_result
from ui.settings.form import CHAIN, CUSTOM, LEAST_LANES, MOST_LANES, TREE, DraftForm, Form, LaneForm, thinking_word

OTHER = "The other run"


def few(stored: StoredComparison, wanted: Collection[str]) -> StoredComparison:
    """At most as many runs as the page has lanes: a study compares more. Those that are wanted, by id, else the first ones."""
    if len(stored.runs) <= MOST_LANES:
        return stored
    chosen = [run for run in stored.runs if run.id in wanted] or stored.runs
    return replace(stored, runs=tuple(replace(run, lane=lane) for lane, run in enumerate(chosen[:MOST_LANES])))


def reopened(stored: StoredComparison) -> Result:
    """The result view of a stored comparison, from its traces alone."""
    traces = {run.lane: run.trace for run in stored.runs}
    lanes = max(LEAST_LANES, *(lane + 1 for lane in traces), 0)
    named = dict(zip(traces, lane_labels([trace.config for trace in traces.values()]), strict=True))
    return ended_result(traces, stored.id, [named.get(lane, OTHER) for lane in range(lanes)])


def shown_settings(stored: StoredComparison, total: int) -> str:
    """The settings of the run that drafted, if one did: they say more. ``total``: how many runs the comparison has, shown or not."""
    config = _richest(stored)
    hidden = (
        f"Shown are {count(len(stored.runs))} of {count(total)} runs: choose others in the list, then open it again. "
    )
    return f"{hidden if total > len(stored.runs) else ''}{settings_line(config) if config else ''}"


def title_of(stored: StoredComparison) -> str:
    """What a comparison is called: its name, or how its prompt begins."""
    return shorten(stored.name or stored.prompt.text or "a comparison without a prompt", 80)


def stored_form(stored: StoredComparison, catalog: Sequence[PairSpec]) -> Form:
    """The fields of Compare that ask for this comparison again. Raises ValueError where it has no run, or goes on from earlier turns.

    What is not a field of the form, the machine and a continuation, is not in it.
    """
    config = _richest(stored)
    if config is None:
        raise ValueError("This comparison has no run, so that there are no settings to load.")
    if config.prompt.history:
        raise ValueError(
            f"This is turn {len(config.prompt.history) + 1} of a conversation; Compare has no field for the turns before."
        )
    sampling, pair, draft = config.sampling, pair_key(config, catalog), _draft(config.drafter)
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
        **asdict(draft),
        **(_own([run.trace.config for run in stored.runs]) if pair == CUSTOM else {}),
    )


def _richest(stored: StoredComparison) -> RunConfig | None:
    configs = sorted((run.trace.config for run in stored.runs), key=lambda config: config.drafter.kind == "none")
    return configs[0] if configs else None


def _draft(drafter: DrafterConfig) -> DraftForm:
    """The fields of a drafter; those that it does not take are as they come."""
    tree = drafter.tree or TreeShape()
    shape = CHAIN if drafter.kind == "eagle3" and drafter.tree is None else TREE
    k = DraftForm().k if drafter.kind == "none" or drafter.tree else drafter.k
    return DraftForm(drafter.kind, k, drafter.mode.value, shape, tree.tokens, tree.depth, tree.top_k)


def _lane(config: RunConfig, shared: DraftForm) -> LaneForm:
    """A lane with its own drafter where that is not the one of the form."""
    own = _draft(config.drafter)
    shares = own == shared or config.rule.name == PLAIN
    return LaneForm(config.rule.name, dict(config.rule.parameters), None if shares else own)


def _own(configs: Sequence[RunConfig]) -> dict[str, Any]:
    """The fields of a pair of the user's own."""
    own: dict[str, Any] = {"own_target": model_name(configs[0].target)}
    for drafter in (config.drafter for config in configs):
        if drafter.model is not None:
            own["own_head" if drafter.kind == "eagle3" else "own_draft"] = model_name(drafter.model)
    return own
