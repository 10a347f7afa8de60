"""Command lines that repeat the runs of a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from evaluation.study.plan import BASELINE, SERVER, Models, Plan
from mars_core.drafting import described
from mars_core.drafting.model import MODEL
from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.rules import PLAIN, RULES
from mars_core.types import (
    PROTECTED,
    DrafterConfig,
    DraftMode,
    ModelRef,
    Parameters,
    Processors,
    PromptConfig,
    RuleConfig,
    RunConfig,
    TreeShape,
)

PROGRAM = "mars"
_UNPRINTABLE = "The prompt has characters that a command line cannot contain, so no command can repeat this run."
_CONTINUED = "This run continues from a token that was chosen by hand; no command can repeat it."
OTHER_SAMPLER = "These runs were drawn by an earlier sampler; with the same seed, the text at temperatures above 0 will be another one."
CommandOptions = dict[str, Any]


def comparison_commands(configs: Sequence[RunConfig]) -> str:
    """The commands that repeat runs, one per line; a comment for runs that cannot be repeated.
    ``configs`` by lane."""
    note = f"# {OTHER_SAMPLER}\n" if any(config.draws_otherwise for config in configs) else ""
    return note + _commands(configs)


def _commands(configs: Sequence[RunConfig]) -> str:
    if len(configs) > 1 and not any(map(_obstacle, configs)) and _one_command(configs):
        rules = [
            config.rule for config in configs if config.rule.name != BASELINE
        ]  # strict is always included
        return _command("compare", _richest(configs), rules)
    comments = [f"# {why}" if (why := _obstacle(config)) else "" for config in configs]
    lines = (
        note or _command("run", config, [config.rule])
        for note, config in zip(comments, configs, strict=True)
    )
    return "\n".join(dict.fromkeys(lines))


def _obstacle(config: RunConfig) -> str:
    """Why no command line can repeat this run, or an empty string. Arguments cannot contain NUL or
    a lone surrogate, and ``-`` means standard input."""
    texts = (config.prompt.text, config.prompt.system, *config.prompt.stop)
    printable = all(
        "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text) for text in texts
    )
    return (
        _CONTINUED
        if config.prefix
        else ""
        if printable and config.prompt.text != "-"
        else _UNPRINTABLE
    )


def _one_command(configs: Sequence[RunConfig]) -> bool:
    """Whether all runs differ in their rules alone, each rule once and with parameters that do not
    contradict."""
    base = _richest(configs)
    names = [config.rule.name for config in configs]
    alike = all(
        replace(config, rule=base.rule, drafter=base.drafter, environment=base.environment) == base
        and (config.drafter == base.drafter or config.drafter.kind == PLAIN)
        and _machine(config) == _machine(base)
        for config in configs
    )
    parameters = [item for config in configs for item in config.rule.parameters.items()]
    return alike and len(dict(parameters)) == len(set(parameters)) and len(set(names)) == len(names)


def _richest(configs: Sequence[RunConfig]) -> RunConfig:
    """With drafts and a classifier, if there is one, because only it has the settings of both."""
    return max(
        configs, key=lambda each: (each.drafter.kind != PLAIN, _classifier(each) is not None)
    )


def _command(name: str, config: RunConfig, rules: Sequence[RuleConfig]) -> str:
    sampling, drafter, key = config.sampling, config.drafter, pair_key(config)
    entry = next((spec for spec in CATALOG if spec.key == key), None)
    has_theta = entry and entry.theta.pair_value is not None  # then θ is never left out
    read, usual = _classifier(config), entry.classifier if entry else None
    parameters = {
        parameter: value
        for rule in rules
        for parameter, value in {**(_theta(rule) if has_theta else {}), **rule.parameters}.items()
    }
    draft = _drafter(drafter, "" if key or drafter.model is None else model_name(drafter.model))
    options = {
        "prompt": config.prompt.text,
        "rule": [rule.name for rule in rules],
        "set": [f"{parameter}={value}" for parameter, value in parameters.items()],
        **prompt_options(config.prompt),
        **({"pair": key} if key else {"target": model_name(config.target)}),
        "classifier": model_name(read) if read and not _offers(usual, read) else None,
        **(draft if drafter.mode is not DraftMode.COUPLED else draft | {"draft_mode": None}),
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        **processor_options(sampling.processors),
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
        **_machine(config),
    }
    return f"{PROGRAM} {name} {shlex.join(words_of(options))}"


def _classifier(config: RunConfig) -> ModelRef | None:
    """That the run read."""
    name, _, revision = config.environment.get("classifier", "").rpartition("@")
    return ModelRef(name, revision) if name else None


def _theta(rule: RuleConfig) -> Parameters:
    return {
        name: value
        for name, value in RULES[rule.name].values(rule.parameters).items()
        if name == "theta"
    }


def processor_options(processors: Processors) -> CommandOptions:
    protect = [] if processors.protect == PROTECTED else [*processors.protect] or [PLAIN]
    return processors.chosen | {
        "logit_bias": [f"{word}={value!r}" for word, value in processors.logit_bias],
        "protect": protect,
    }


def _machine(config: RunConfig) -> CommandOptions:
    device, dtype = (
        config.environment.get("device", "").partition(" ")[0],
        config.environment.get("dtype", ""),
    )
    return {"device": device or None, "dtype": dtype or None}


def pair_key(config: RunConfig, catalog: Iterable[PairSpec] = CATALOG) -> str | None:
    """The key of the catalog pair with the run's models, or None."""
    for spec in catalog:
        offered = described(config.drafter.kind).model(spec)
        drafter_fits = config.drafter.model is None or _offers(offered, config.drafter.model)
        if _offers(spec.target, config.target) and drafter_fits:
            return spec.key
    return None


def _offers(offered: ModelRef | None, used: ModelRef) -> bool:
    """Whether a catalog entry matches the model used; one without a pinned revision matches any."""
    return (
        offered is not None
        and offered.name == used.name
        and offered.revision in (None, used.revision)
    )


def spec_of_models(models: Models, catalog: Iterable[PairSpec] = CATALOG) -> PairSpec:
    """The pair of a study's plan. Raises ModelError, and ValueError for the model of a server."""
    if models.key == SERVER:
        raise ValueError("This study runs on a server; continue it with: mars eval resume")
    known = next((spec for spec in catalog if spec.key == models.key), None)
    target, *others = (
        ref and model_name(ref)
        for ref in (models.target, models.draft, models.head, models.classifier)
    )
    return known or custom_pair(target or "", *others)


def model_name(ref: ModelRef) -> str:
    """A model as a form field or option value, without the revision of a folder, which is a hash of
    its content."""
    pinned = ref.revision and not ref.revision.startswith("local:")
    return f"{ref.name}@{ref.revision}" if pinned else ref.name


def _drafter(drafter: DrafterConfig, model: str) -> CommandOptions:
    """``model``: empty for the pair's own."""
    kind, tree = described(drafter.kind), drafter.tree
    if kind.name == PLAIN:
        return {}
    prefix = "" if kind is MODEL else kind.name
    name = ":".join(filter(None, (prefix, model)))
    shape: CommandOptions = {"tree": tree_text(tree)} if kind.trees else {}
    if tree is None:
        shape |= {"k": drafter.k}
    mode = {"draft_mode": drafter.mode.value} if len(kind.modes) > 1 else {}
    return ({"drafter": name} if name else {}) | shape | mode


def tree_text(tree: TreeShape | None) -> str:
    return f"{tree.tokens}/{tree.depth}/{tree.top_k}" if tree else "chain"


def prompt_options(source: PromptConfig | Plan) -> CommandOptions:
    return {
        "system": source.system or None,
        "no_chat": not source.chat,
        "thinking": {None: None, True: "on", False: "off"}[source.thinking],
        "stop": source.stop,
    }


def words_of(options: CommandOptions) -> list[str]:
    """``--name=value``: once for each value of a list, without one for a switch that is on; None
    and False are left out."""
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        values = (
            value
            if isinstance(value, list | tuple)
            else []
            if value is None or value is False
            else [value]
        )
        words += [option if each is True else f"{option}={each}" for each in values]
    return words
