"""Command lines that repeat a study or the runs of a comparison, and lm-eval's ``--model_args``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from evaluation.study.batch import AUTO
from evaluation.study.plan import BASELINE, SERVER, Lane, Models, Plan, with_placebos
from evaluation.suites.typed import SOURCE, typed
from mars_core.drafting import described
from mars_core.drafting.model import MODEL
from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.rules import PLAIN, RULES, reads_score
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
    value_text,
)

PROGRAM = "mars"
_UNPRINTABLE = "The prompt has characters that a command line cannot contain, so no command can repeat this run."
_CONTINUED = "This run continues from a token that was chosen by hand; no command can repeat it."
OTHER_SAMPLER = "These runs were drawn by an earlier sampler; with the same seed, the text at temperatures above 0 will be another one."
Options = dict[str, Any]


def study_command(plan: Plan) -> str | None:
    """The command that plans and runs a study again; None unless its lanes are every rule with
    every drafter, and all their placebos or none. Of a study whose lanes were chosen from strict's
    runs, the command that chooses them."""
    chosen, placebos = _without_placebos(plan)
    lanes = [
        (replace(lane.drafter, model=None), lane.rule) for lane in chosen if lane.rule.name != PLAIN
    ]
    drafters = list(dict.fromkeys(drafter for drafter, _ in lanes))
    values: dict[
        str, dict[str, dict[float | str, None]]
    ] = {}  # rule → parameter → its values in the order of the plan
    for _, rule in lanes:
        parameters = values.setdefault(rule.name, {})
        for name, value in rule.parameters.items():
            parameters.setdefault(name, {})[value] = None
    planned = {(drafter, rule.name, tuple(rule.parameters.values())) for drafter, rule in lanes}
    expressible = {
        (drafter, rule, chosen)
        for drafter, (rule, parameters) in product(drafters, values.items())
        for chosen in product(*parameters.values())
    }
    drafting, purpose = {} if plan.served else _drafters(drafters), plan.advice or plan.matching
    partial = any(lane.imitates for lane in chosen)
    if drafting is None or not (purpose or planned == expressible) or BASELINE not in values:
        return None
    if partial or (purpose and any(suite.source == SOURCE for suite in plan.suites)):
        return None
    options = {
        **_study_models(plan),
        "suite": [suite.source or suite.name for suite in plan.suites if suite.source != SOURCE],
        "prompt": [
            typed(item) for suite in plan.suites if suite.source == SOURCE for item in suite.items
        ],
        "rules": ",".join(
            [PLAIN] * (plan.none is not None) + [*(purpose.rules if purpose else values)]
        ),
        "set": [
            f"{rule}.{name}={_joined(each)}"
            for rule, field in ({} if purpose else values).items()
            for name, each in field.items()
        ],
        **drafting,
        "temperature": _joined(plan.temperatures),
        "seeds": plan.repeats,
        "seed": plan.seed,
        "max_new_tokens": plan.max_new_tokens,
        "margin": f"{plan.margin:g}",
        "top_k": plan.top_k or None,
        "top_p": f"{plan.top_p:g}" if plan.top_p < 1 else None,
        **({} if plan.served else _processors(plan.processors)),
        **_prompt(plan),
        "limit": plan.limit,
        "skip_long": plan.skip_long,
        "batch": _batch(plan),
        "time_alone": plan.alone or None,
        "execute_code": plan.execute_code,
        "no_placebos": not (placebos or purpose),
        **_purpose(plan),
        "name": plan.name,
    }
    command = "advise" if plan.advice else "eval match" if plan.matching else "eval run"
    return f"{PROGRAM} {command} {shlex.join(_words(options))}"


def _batch(plan: Plan) -> str | None:
    if plan.batch == 1:
        return None
    return AUTO if plan.auto else _joined(plan.loads or (plan.batch,))


def _purpose(plan: Plan) -> Options:
    if plan.advice:
        return {"alpha": f"{plan.advice.alpha:g}"}
    matching = plan.matching
    names = {"tau": "tau", "speedup": "speed"}
    return {names[matching.quantity]: f"{matching.target:g}"} if matching else {}


def _without_placebos(plan: Plan) -> tuple[Sequence[Lane], bool]:
    """The lanes that were asked for, and whether placebos are added to them, if they have any."""
    chosen = [lane for lane in plan.lanes if not lane.is_placebo]
    if sorted(map(repr, with_placebos(chosen))) == sorted(map(repr, plan.lanes)):
        return chosen, True
    return plan.lanes, plan.served is not None


def _drafters(drafters: Sequence[DrafterConfig]) -> Options | None:
    """The drafter options; None where one list of K, one tree and one mode cannot express them
    all."""
    kinds = dict.fromkeys(drafter.kind for drafter in drafters)
    lengths = dict.fromkeys(drafter.k for drafter in drafters if not drafter.tree)
    trees = {drafter.tree for drafter in drafters if described(drafter.kind).trees}
    mode = next(
        (
            mode
            for mode in DraftMode
            if all(described(each.kind).mode(mode) is each.mode for each in drafters)
        ),
        None,
    )
    branched = {drafter.kind for drafter in drafters if drafter.tree}
    planned = len(branched) + (len(kinds) - len(branched)) * len(lengths)
    if mode is None or planned != len(drafters) or len(trees) > 1:
        return None
    shapes = [f"{tree.tokens}/{tree.depth}/{tree.top_k}" for tree in trees if tree]
    others = [mode.value] * (mode is not DraftMode.COUPLED)
    chains = _joined(lengths) or None
    return {"drafter": ",".join(kinds), "k": chains, "tree": shapes, "draft_mode": others}


def _study_models(plan: Plan) -> Options:
    served, models = plan.served, plan.models
    if served:
        other = {
            "baseline": served.baseline_url or None,
            "baseline_model": served.baseline_model or None,
        }
        return {
            "server": served.url,
            "server_model": served.model,
            "concurrency": _joined(served.concurrency),
        } | other
    if models.key in {spec.key for spec in CATALOG}:
        return {"pair": models.key}
    parts = ("target", "draft", "head", "classifier")
    named = {each: getattr(models, each) for each in parts}
    return {option: model_name(ref) for option, ref in named.items() if ref}


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
    """A run with drafts, if there is one, because only it has the drafter's settings."""
    return next((config for config in configs if config.drafter.kind != PLAIN), configs[0])


def _command(name: str, config: RunConfig, rules: Sequence[RuleConfig]) -> str:
    sampling, drafter, key = config.sampling, config.drafter, pair_key(config)
    has_theta = any(
        spec.key == key and spec.theta.pair_value is not None for spec in CATALOG
    )  # then θ is never left out
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
        **_prompt(config.prompt),
        **({"pair": key} if key else {"target": model_name(config.target)}),
        "classifier": _classifier(config),
        **(draft if drafter.mode is not DraftMode.COUPLED else draft | {"draft_mode": None}),
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        **_processors(sampling.processors),
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
        **_machine(config),
    }
    return f"{PROGRAM} {name} {shlex.join(_words(options))}"


def _classifier(config: RunConfig) -> str | None:
    """Of the pair, where the run read it."""
    name, _, revision = config.environment.get("classifier", "").rpartition("@")
    return model_name(ModelRef(name, revision)) if name else None


def _theta(rule: RuleConfig) -> Parameters:
    return {
        name: value
        for name, value in RULES[rule.name].values(rule.parameters).items()
        if name == "theta"
    }


def _processors(processors: Processors) -> Options:
    protect = [] if processors.protect == PROTECTED else [*processors.protect] or [PLAIN]
    return processors.chosen | {
        "logit_bias": [f"{word}={value!r}" for word, value in processors.logit_bias],
        "protect": protect,
    }


def _machine(config: RunConfig) -> Options:
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


def model_args(models: Models, lane: Lane, protect: Sequence[str]) -> dict[str, Any]:
    """A lane as ``--model_args`` of the model mars."""
    model = described(lane.drafter.kind).model(models)
    rule = {"target": models.target.name, "rule": lane.rule.name, **lane.rule.parameters}
    if protect != PROTECTED and lane.drafter.kind != SERVER:
        rule["protect"] = " ".join(protect) or PLAIN
    if models.classifier and lane.rule.name in RULES and reads_score(lane.rule):
        rule["classifier"] = models.classifier.name
    return {**rule, **_drafter(lane.drafter, model.name if model else "")}


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


def _drafter(drafter: DrafterConfig, model: str) -> Options:
    """``model``: empty for the pair's own."""
    kind, tree = described(drafter.kind), drafter.tree
    if kind.name == PLAIN:
        return {}
    prefix = "" if kind is MODEL else kind.name
    name = ":".join(filter(None, (prefix, model)))
    shape: Options = {"chain": True} if kind.trees else {}
    if tree:
        shape = {"tree_tokens": tree.tokens, "tree_depth": tree.depth, "tree_top_k": tree.top_k}
    else:
        shape |= {"k": drafter.k}
    mode = {"draft_mode": drafter.mode.value} if len(kind.modes) > 1 else {}
    return ({"drafter": name} if name else {}) | shape | mode


def _prompt(source: PromptConfig | Plan) -> Options:
    thinking = None if source.thinking is None else _switch(source.thinking)
    return {
        "system": source.system or None,
        "no_chat": not source.chat,
        "thinking": thinking,
        "stop": source.stop,
    }


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _joined(values: Iterable[float | str]) -> str:
    return ",".join(map(value_text, values))


def _words(options: Options) -> list[str]:
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
