"""The plan of a study from the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from evaluation.study.plan import (
    BASELINE,
    EQUIVALENCE,
    PLACEBO_SEEDS,
    SERVER,
    Lane,
    Models,
    Plan,
    Served,
    with_placebos,
    with_sharpened,
)
from evaluation.suites.read import read_suite
from evaluation.suites.typed import typed_suite
from mars_core.arguments import (
    read_processors,
    read_rules,
    read_thinking,
    read_tree,
)
from mars_core.drafting import drafter_kind, offered
from mars_core.numbers import check_lanes, read_integers, read_numbers
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, DraftMode, ModelRef, RuleConfig

if TYPE_CHECKING:
    from mars_core.models import Pair

RULES_OF_STUDY, _SERVED_RULES, _TWO_SERVERS = "none,strict,mars", "strict,mars", "strict,server"
# Fields of Plan that are options of the same name.
_SAME = (
    "seed",
    "top_k",
    "top_p",
    "max_new_tokens",
    "system",
    "margin",
    "equivalence",
    "execute_code",
    "limit",
    "skip_long",
    "interventions",
)


def read_plan_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """The plan given by the options, for these models. Raises ValueError."""
    models = Models.of(pair)
    names = _words(options.rules or RULES_OF_STUDY)
    lanes = _lanes(options, names, _drafters(options, pair), pair.spec.theta.pair_value)
    return _plan(options, models, lanes if options.no_placebos else _with_controls(options, lanes))


def _with_controls(options: argparse.Namespace, lanes: tuple[Lane, ...]) -> tuple[Lane, ...]:
    lanes = with_placebos(lanes, options.placebo_seeds)
    if not options.sharpened or not min(read_numbers(options.temperature, "--temperature")):
        return lanes
    return with_sharpened(lanes, read_numbers(options.sharpened, "--sharpened"))


def read_choosing_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """The plan whose rules get their parameters from strict's runs. Raises ValueError."""
    names = [name for name in _words(options.rules or "mars") if name != BASELINE]
    options.rules = ",".join([BASELINE, *names])
    options.theta, options.set, options.scope, options.no_placebos = "", [], "all", True
    options.equivalence, options.placebo_seeds = EQUIVALENCE, PLACEBO_SEEDS
    options.interventions, options.sharpened = 0, ""
    return read_plan_options(options, pair)


def read_served_options(
    options: argparse.Namespace, find_server: Callable[[str, str], tuple[str, str]]
) -> Plan:
    """The plan of a study on servers. ``find_server``: URL and model of a server, from what is
    given. Raises ValueError."""
    chosen = read_processors(options).chosen
    ours = ("target", "draft", "head", "classifier", "drafter", "tree")
    for name in (*ours, "skip_long", "batch", "time_alone", "protect", *chosen):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} cannot be used with --server, which has models, drafts, processors "
                "and batches of its own."
            )
    if not options.server:
        raise ValueError(
            "--baseline is given without --server; it is the server of the lane strict beside "
            "another one."
        )
    server = find_server(options.server, options.server_model)
    baseline = (
        find_server(options.baseline, options.baseline_model) if options.baseline else ("", "")
    )
    served = Served(*server, *baseline, read_integers(options.concurrency, "--concurrency", 0))
    names = _words(options.rules or (_TWO_SERVERS if options.baseline else _SERVED_RULES))
    if PLAIN in names:
        why = "cannot be requested from a server; name a server that does not draft with --baseline"
        raise ValueError(f"The rule {PLAIN} {why}.")
    drafter = DrafterConfig(SERVER, None, 0)
    lanes = _lanes(options, [name for name in names if name != SERVER], [drafter])
    lanes += (Lane(RuleConfig(SERVER), drafter),) * names.count(SERVER)
    return _plan(options, Models(SERVER, ModelRef(served.model)), lanes, served)


def _plan(
    options: argparse.Namespace,
    models: Models,
    lanes: tuple[Lane, ...],
    served: Served | None = None,
) -> Plan:
    suites = [
        read_suite(source, options.limit)
        for sources in options.suite
        for source in sources.split(",")
    ]
    if options.prompt or options.reference:
        suites.append(typed_suite(options.prompt, options.reference))
    processors = read_processors(options)
    if not suites:
        raise ValueError("There is nothing to run; give --suite or --prompt.")
    return Plan(
        name=options.name or ", ".join(suite.name for suite in suites),
        models=models,
        suites=tuple(suites),
        lanes=lanes,
        temperatures=read_numbers(options.temperature, "--temperature"),
        repeats=options.seeds,
        chat=not options.no_chat,
        thinking=read_thinking(options),
        stop=tuple(options.stop),
        served=served,
        alone=options.time_alone,
        # a server decides by itself what it relaxes
        processors=replace(processors, protect=()) if served else processors,
        **{name: getattr(options, name) for name in _SAME},
    )


def _lanes(
    options: argparse.Namespace,
    names: list[str],
    drafters: list[DrafterConfig],
    theta: float | None = None,
) -> tuple[Lane, ...]:
    chosen = read_rules(names, options, theta)
    rules = [
        replace(rule, parameters=RULES[rule.name].values(rule.parameters))
        for rule in chosen
        if rule.name != PLAIN
    ]
    check_lanes(len(drafters) * len(rules))
    lanes = [Lane(rule, drafter) for drafter in drafters for rule in rules]
    none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in names else []
    return (*none, *lanes)


def _drafters(options: argparse.Namespace, pair: Pair) -> list[DrafterConfig]:
    kinds = [drafter_kind(name) for name in _words(options.drafter) or offered(pair)[:1]]
    tree = read_tree(options.tree) if options.tree else None
    if tree and not any(kind.trees for kind in kinds):
        names = ", ".join(kind.name for kind in kinds)
        raise ValueError(f"--tree is given; drafter {names} drafts chains only.")
    mode, drafters = DraftMode(options.draft_mode), list[DrafterConfig]()
    ks = read_integers(options.k, "--k", 0) if options.k else (pair.spec.k,)
    for kind in kinds:
        shape = tree if kind.trees else None
        drafters += [
            DrafterConfig(kind.name, None, k, kind.mode(mode), shape)
            for k in (ks[:1] if shape else ks)
        ]
    return drafters


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
