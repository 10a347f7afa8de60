"""From the fields of the page to configurations. Fields can hold anything: what cannot be a value
gets one clear sentence here, what cannot be run gets its sentence from the session. No gradio; the
session, with all that models need, only once a pair is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mars_core.drafting import drafter_kind
from mars_core.models import PairSpec, custom_pair
from mars_core.numbers import read_bias, read_integer, read_number
from mars_core.rules import PLAIN, RULES, WHERE, Rule
from mars_core.text.files import lines_of
from mars_core.types import (
    PROCESSORS,
    DrafterConfig,
    DraftMode,
    Processors,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    TreeShape,
)
from ui.kit.labels import parameter_title
from ui.settings.drafters import CHAIN, TREE, taken
from ui.settings.form import MOST_LANES, MOST_REPEATS, DraftForm, Form, LaneForm, RunForm

if TYPE_CHECKING:
    from mars_core.models import Pair

THINKING: Mapping[str, bool | None] = {"default": None, "on": True, "off": False}
LARGEST_SEED = 2**53 - 1  # the browser's numbers are doubles


def read_custom_pair(target: str, draft: str, head: str) -> PairSpec:
    """Raises ValueError."""
    if not target.strip():
        raise ValueError(
            "The target model is empty; give a Hub id (owner/name) or the path of a folder."
        )
    return custom_pair(target.strip(), draft.strip() or None, head.strip() or None)


def catalog_pair(key: str, catalog: Sequence[PairSpec]) -> PairSpec:
    """The pair of that key. Raises ValueError."""
    for spec in catalog:
        if spec.key == key:
            return spec
    raise ValueError(
        f"The model pair is {key!r}; it must be one of {', '.join(spec.key for spec in catalog)}."
    )


def read_prompt(form: Form) -> PromptConfig:
    """The prompt with its stop strings, one a line. Raises ValueError where it is empty."""
    if not form.prompt.strip():
        raise ValueError(
            "The prompt is empty; type one, or take one of the examples under the box."
        )
    thinking = read_thinking(form.thinking)
    return PromptConfig(
        form.prompt,
        system=form.system,
        chat=bool(form.chat),
        stop=read_stop(form),
        thinking=thinking,
    )


def read_repeats(form: Form) -> int:
    """0: as many as are quick. Raises ValueError."""
    return read_integer(form.repeats, "runs per lane", 0, MOST_REPEATS)


def read_stop(form: RunForm) -> tuple[str, ...]:
    return tuple(filter(None, lines_of(form.stop)))


def read_processors(form: RunForm) -> Processors:
    """Raises ValueError."""
    numbers: dict[str, Any] = {}
    for name in PROCESSORS:
        reader = read_integer if isinstance(getattr(Processors(), name), int) else read_number
        numbers[name] = reader(getattr(form, name), name)
    biases = (line for line in lines_of(form.logit_bias) if line)
    protect = tuple(filter(None, map(str.strip, lines_of(form.protect))))
    return Processors(
        **numbers,
        logit_bias=tuple(read_bias(line, "A line of the logit biases") for line in biases),
        protect=() if protect == (PLAIN,) else protect,
    )


def processor_values(processors: Processors) -> dict[str, Any]:
    """The fields that ``read_processors`` reads as this."""
    return asdict(processors) | {
        "logit_bias": "\n".join(f"{word}={value}" for word, value in processors.logit_bias),
        "protect": "\n".join(processors.protect) or PLAIN,
    }


def read_thinking(word: str) -> bool | None:
    """Raises ValueError."""
    if word not in THINKING:
        raise ValueError(f"thinking is {word!r}; it must be {' or '.join(THINKING)}.")
    return THINKING[word]


def thinking_word(thinking: bool | None) -> str:
    return next(word for word, value in THINKING.items() if value is thinking)


def read_configs(form: Form, pair: Pair) -> tuple[RunConfig, ...]:
    """One configuration a lane. Raises ValueError for a field without a value; the session checks
    ranges."""
    from mars_core.session import run_config

    if not 1 <= len(form.lanes) <= MOST_LANES:
        raise ValueError(
            f"{len(form.lanes)} rules were chosen; the page compares 1 to {MOST_LANES}."
        )
    sampling = Sampling(
        temperature=read_number(form.temperature, "temperature"),
        top_k=read_integer(form.top_k, "top-k"),
        top_p=read_number(form.top_p, "top-p"),
        processors=read_processors(form),
    )
    prompt, seed = read_prompt(form), read_integer(form.seed, "seed", 0, LARGEST_SEED)
    longest = read_integer(form.max_new_tokens, "max new tokens")
    return tuple(
        run_config(
            pair,
            prompt=prompt,
            rule=read_rule(lane),
            drafter=_drafter(lane, form),
            sampling=sampling,
            max_new_tokens=longest,
            seed=seed,
        )
        for lane in form.lanes
    )


def _drafter(lane: LaneForm, form: Form) -> DrafterConfig:
    return (
        DrafterConfig(kind=PLAIN, k=0) if lane.rule == PLAIN else read_drafter(lane.draft or form)
    )


def read_drafter(form: DraftForm) -> DrafterConfig:
    """The drafter with its parameters; fields that it does not take are not read. Raises
    ValueError."""
    kind, fields = drafter_kind(form.drafter), taken(form.drafter, form.shape)
    if kind.name == PLAIN:
        return DrafterConfig(kind=PLAIN, k=0)
    mode = DraftMode(form.mode if "mode" in fields else kind.modes[0])
    if kind.trees and form.shape not in (TREE, CHAIN):
        raise ValueError(f"The shape of the draft is {form.shape!r}; it must be {CHAIN} or {TREE}.")
    if "k" in fields:
        return DrafterConfig(kind=kind.name, k=read_integer(form.k, "K"), mode=mode)
    return DrafterConfig(
        kind=kind.name,
        mode=mode,
        tree=TreeShape(
            tokens=read_integer(form.tree_tokens, "the number of drafted tokens"),
            depth=read_integer(form.tree_depth, "the depth of the tree"),
            top_k=read_integer(form.tree_top_k, "the tree's top-k"),
        ),
    )


def rule_named(name: str) -> Rule:
    """Raises ValueError."""
    if name not in RULES:
        raise ValueError(f"The rule is {name[:80]!r}; it must be one of {', '.join(RULES)}.")
    return RULES[name]


def read_rule(lane: LaneForm) -> RuleConfig:
    """Raises ValueError."""
    known = {parameter.name: None for parameter in rule_named(lane.rule).parameters}
    return RuleConfig(
        lane.rule,
        {
            name: value if isinstance(value, str) else read_number(value, parameter_title(name))
            for name, value in (known | dict(lane.parameters)).items()
            if name in known or (name == WHERE.name and value is not None)
        },
    )
