"""The plan of a study from its settings, as the command line has them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evaluation.item import Suite
from evaluation.plan.lane import BASELINE, Lane, lanes_of, with_placebos, with_sharpened
from evaluation.plan.lengths import with_lengths
from evaluation.plan.models import Models, Served
from evaluation.plan.plan import Plan, PlanSettings
from evaluation.settings import RULES_OF_STUDY, STUDY, StudySettings
from evaluation.suites.read import read_suite
from evaluation.suites.typed import typed_suite
from mars_core.drafting import drafter_kind, offered
from mars_core.rules import PLAIN, RULES
from mars_core.settings import CHAIN, KINDS, LaneSettings, Settings
from mars_core.settings.command_line import RuleValues, read_rules
from mars_core.settings.setting import chosen, kinds
from mars_core.types import SERVER, DrafterConfig, DraftMode, ModelRef, RuleConfig

if TYPE_CHECKING:
    from mars_core.models import Pair, PairSpec

COMMON = [name for name in KINDS if name not in STUDY]  # settings that all runs have in common
_IN_PLAN = ("top_k", "top_p", "system", "chat", "thinking", "stop")


def read_plan_options(options: Namespace, pair: Pair) -> Plan:
    """Read the plan given by the options, for these models. Raises ValueError."""
    return _here(options, chosen(StudySettings, options), pair)


def read_choosing_options(options: Namespace, pair: Pair) -> Plan:
    """Read the plan whose rules get their parameters from strict's runs. Raises ValueError."""
    study = chosen(StudySettings, options)
    names = [name for name in study.rules or ("mars",) if name != BASELINE]
    return _here(options, replace(study, rules=(BASELINE, *names), placebos=False), pair)


def _here(options: Namespace, study: StudySettings, pair: Pair) -> Plan:
    settings = chosen(Settings, options, *COMMON)
    drafters = drafters_of(study, settings, pair.spec)
    lanes = _lanes(options, study.rules or RULES_OF_STUDY, drafters, pair.spec)
    if study.placebos:
        lanes = with_placebos(lanes, study.placebo_seeds)
        lanes = with_sharpened(lanes, study.sharpened) if min(study.temperature) else lanes
    plan = plan_of(study, settings, Models.of(pair), _suites(study), lanes)
    return with_lengths(plan, study.lengths, pair.tokenizer)


def read_served_options(
    options: Namespace, find_server: Callable[[str, str], tuple[str, str]]
) -> Plan:
    """Read the plan of a study on servers. ``find_server``: URL and model of a server, from what is
    given. Raises ValueError."""
    study, settings = chosen(StudySettings, options), chosen(Settings, options, *COMMON)
    ours = ("target", "draft", "head", "classifier", "drafter", "tree", "protect", "batch", "alone")
    for name in (*ours, *settings.sampling.processors.chosen):
        if getattr(options, name):
            raise ValueError(
                f"{(KINDS | STUDY)[name].flag(name)} cannot be used with --server, which has models, "
                "drafts, processors and batches of its own."
            )
    if not study.server:
        raise ValueError(
            "--baseline is given without --server; it is the server of the lane strict beside "
            "another one."
        )
    server, baseline = find_server(study.server, study.server_model), ("", "")
    names = study.rules or (BASELINE, "mars")
    if study.baseline:
        baseline = find_server(study.baseline, study.baseline_model)
        names = study.rules or (BASELINE, SERVER)
    if PLAIN in names:
        why = "cannot be requested from a server; name a server that does not draft with --baseline"
        raise ValueError(f"The rule {PLAIN} {why}.")
    drafter = DrafterConfig(SERVER, None, 0)
    lanes = _lanes(options, [name for name in names if name != SERVER], [drafter])
    lanes += (Lane(RuleConfig(SERVER), drafter),) * names.count(SERVER)
    served = Served(*server, *baseline, study.concurrency)
    models = Models(SERVER, ModelRef(served.model))
    # a server decides by itself what it relaxes
    plan = plan_of(study, replace(settings, protect=()), models, _suites(study), lanes, served)
    return with_lengths(plan, study.lengths, None)


def plan_of(
    study: StudySettings,
    settings: Settings,
    models: Models,
    suites: Sequence[Suite],
    lanes: tuple[Lane, ...],
    served: Served | None = None,
) -> Plan:
    """Return the plan of a study whose runs have these settings. Raises ValueError."""
    own: dict[str, Any] = {name: getattr(study, name) for name in kinds(PlanSettings)}
    shared = {name: getattr(settings, name) for name in _IN_PLAN}
    return Plan(
        study.name or ", ".join(suite.name for suite in suites),
        models,
        tuple(suites),
        lanes,
        study.temperature,
        processors=settings.sampling.processors,
        served=served,
        **own,
        **shared,
    )


def _suites(study: StudySettings) -> list[Suite]:
    sources = [source for sources in study.suite for source in sources.split(",")]
    suites = [read_suite(source, study.limit) for source in sources]
    if study.prompt or study.reference:
        suites.append(typed_suite(study.prompt, study.reference))
    if not suites:
        raise ValueError("There is nothing to run; give --suite or --prompt.")
    return suites


def _lanes(
    options: Namespace,
    names: Sequence[str],
    drafters: Sequence[DrafterConfig],
    spec: PairSpec | None = None,
) -> tuple[Lane, ...]:
    named = read_rules([name for name in names if name != PLAIN], chosen(RuleValues, options))
    if spec:
        named = [LaneSettings(rule).config(spec) for rule in named]
    rules = [replace(rule, parameters=RULES[rule.name].values(rule.parameters)) for rule in named]
    return lanes_of(rules, drafters, plain=PLAIN in names)


def drafters_of(study: StudySettings, settings: Settings, spec: PairSpec) -> list[DrafterConfig]:
    """Return chains of each K; of a tree one. Raises ValueError."""
    drafting = [drafter_kind(name) for name in study.drafter or offered(spec)[:1]]
    if settings.tree and not any(kind.trees for kind in drafting):
        names = ", ".join(kind.name for kind in drafting)
        raise ValueError(f"--tree is given; drafter {names} drafts chains only.")
    ks = study.k or (spec.k,)
    return [
        replace(
            settings,
            drafter=kind.name,
            k=k,
            draft_mode=kind.mode(DraftMode(settings.draft_mode)),
            tree=settings.tree or CHAIN if kind.trees else "",
        ).config(spec)
        for kind in drafting
        for k in (ks[:1] if settings.tree not in ("", CHAIN) and kind.trees else ks)
    ]
