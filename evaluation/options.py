"""The plan of a study from the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evaluation.plan.lane import (
    BASELINE,
    PLACEBO_SEEDS,
    Lane,
    lanes_of,
    with_placebos,
    with_sharpened,
)
from evaluation.plan.lengths import LEAST, MOST, with_lengths
from evaluation.plan.models import Models, Served
from evaluation.plan.plan import Plan
from evaluation.suites.read import read_suite
from evaluation.suites.typed import typed_suite
from mars_core.drafting import drafter_kind, offered
from mars_core.numbers import read_integers, read_numbers
from mars_core.rules import PLAIN, RULES
from mars_core.settings import CHAIN, PROCESSORS, LaneSettings, Settings
from mars_core.settings.command_line import read_rules, settings_named
from mars_core.settings.setting import kinds
from mars_core.types import MAX_DRAFT, SERVER, DrafterConfig, DraftMode, ModelRef, RuleConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from mars_core.models import Pair, PairSpec

RULES_OF_STUDY, _SERVED_RULES, _TWO_SERVERS = "none,strict,mars", "strict,mars", "strict,server"
_IN_PLAN = ("top_k", "top_p", "system", "chat", "thinking", "stop")
_SHARED = ("draft_mode", "tree", *_IN_PLAN, *PROCESSORS)


def read_plan_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """Read the plan given by the options, for these models. Raises ValueError."""
    models = Models.of(pair)
    names = _words(options.rules or RULES_OF_STUDY)
    settings = settings_named(options, *_SHARED)
    lanes = _lanes(options, names, _drafters(options, settings, pair.spec), pair.spec)
    chosen = lanes if options.no_placebos else _with_controls(options, lanes)
    return _plan(options, settings, models, chosen, tokenizer=pair.tokenizer)


def _with_controls(options: argparse.Namespace, lanes: tuple[Lane, ...]) -> tuple[Lane, ...]:
    lanes = with_placebos(lanes, options.placebo_seeds)
    if not options.sharpened or not min(read_numbers(options.temperature, "--temperature")):
        return lanes
    return with_sharpened(lanes, read_numbers(options.sharpened, "--sharpened"))


def read_choosing_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """Read the plan whose rules get their parameters from strict's runs. Raises ValueError."""
    names = [name for name in _words(options.rules or "mars") if name != BASELINE]
    options.rules = ",".join([BASELINE, *names])
    options.theta, options.set, options.scope, options.no_placebos = "", [], "all", True
    options.equivalence, options.placebo_seeds = None, PLACEBO_SEEDS
    options.interventions, options.sharpened = None, ""
    return read_plan_options(options, pair)


def read_served_options(
    options: argparse.Namespace, find_server: Callable[[str, str], tuple[str, str]]
) -> Plan:
    """Read the plan of a study on servers. ``find_server``: URL and model of a server, from what is
    given. Raises ValueError."""
    settings = settings_named(options, *_SHARED)
    chosen = settings.sampling.processors.chosen
    ours = ("target", "draft", "head", "classifier", "drafter", "tree", "protect")
    for name in (*ours, "batch", "alone", *chosen):
        if getattr(options, name):
            option = {"alone": "time-alone"}.get(name, name.replace("_", "-"))
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
    return _plan(options, settings, Models(SERVER, ModelRef(served.model)), lanes, served)


def _plan(
    options: argparse.Namespace,
    settings: Settings,
    models: Models,
    lanes: tuple[Lane, ...],
    served: Served | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Plan:
    limit = options.limit and kinds(Plan)["limit"].read(options.limit, "limit")
    suites = [
        read_suite(source, limit) for sources in options.suite for source in sources.split(",")
    ]
    if options.prompt or options.reference:
        suites.append(typed_suite(options.prompt, options.reference))
    if not suites:
        raise ValueError("There is nothing to run; give --suite or --prompt.")
    plan = Plan(
        name=options.name or ", ".join(suite.name for suite in suites),
        models=models,
        suites=tuple(suites),
        lanes=lanes,
        temperatures=read_numbers(options.temperature, "--temperature"),
        served=served,
        # a server decides by itself what it relaxes
        **planned(replace(settings, protect=()) if served else settings),
        **{name: each for name in kinds(Plan) if (each := getattr(options, name)) is not None},
    )
    lengths = read_integers(options.lengths, "--lengths", LEAST, MOST) if options.lengths else ()
    return with_lengths(plan, lengths, tokenizer)


def _lanes(
    options: argparse.Namespace,
    names: list[str],
    drafters: list[DrafterConfig],
    spec: PairSpec | None = None,
) -> tuple[Lane, ...]:
    chosen = [rule for rule in read_rules(names, options) if rule.name != PLAIN]
    if spec:
        chosen = [LaneSettings(rule).config(spec) for rule in chosen]
    rules = [replace(rule, parameters=RULES[rule.name].values(rule.parameters)) for rule in chosen]
    return lanes_of(rules, drafters, plain=PLAIN in names)


def _drafters(
    options: argparse.Namespace, settings: Settings, spec: PairSpec
) -> list[DrafterConfig]:
    """Return chains of each K; of a tree one."""
    kinds = [drafter_kind(name) for name in _words(options.drafter) or offered(spec)[:1]]
    if settings.tree and not any(kind.trees for kind in kinds):
        names = ", ".join(kind.name for kind in kinds)
        raise ValueError(f"--tree is given; drafter {names} drafts chains only.")
    ks = read_integers(options.k, "--k", 1, MAX_DRAFT) if options.k else (spec.k,)
    return [
        replace(
            settings,
            drafter=kind.name,
            k=k,
            draft_mode=kind.mode(DraftMode(settings.draft_mode)),
            tree=settings.tree or CHAIN if kind.trees else "",
        ).config(spec)
        for kind in kinds
        for k in (ks[:1] if settings.tree not in ("", CHAIN) and kind.trees else ks)
    ]


def planned(settings: Settings) -> dict[str, Any]:
    """Return the fields of a plan that are settings of its runs."""
    processors = settings.sampling.processors
    return {name: getattr(settings, name) for name in _IN_PLAN} | {"processors": processors}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
