"""The command line that repeats a study."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from evaluation.commands import (
    PROGRAM,
    CommandOptions,
    model_name,
    processor_options,
    prompt_options,
    tree_text,
    words_of,
)
from evaluation.study.batch import AUTO
from evaluation.study.plan import (
    BASELINE,
    EQUIVALENCE,
    PLACEBO_SEEDS,
    SCALES,
    Lane,
    Plan,
    with_placebos,
    with_sharpened,
)
from evaluation.suites.typed import SOURCE
from mars_core.drafting import described
from mars_core.models import CATALOG
from mars_core.rules import PLAIN
from mars_core.types import DrafterConfig, DraftMode, value_text


def study_command(plan: Plan) -> str | None:
    """The command that plans and runs a study again; None where no single one does. Of a study
    whose lanes were chosen from strict's runs, the command that chooses them."""
    (chosen, placebos), seeds = _without_placebos(plan), plan.placebo_seeds
    lanes, purpose = _lanes(plan, chosen), plan.advice or plan.matching
    typed_items = [item for suite in plan.suites if suite.source == SOURCE for item in suite.items]
    answers = ["".join(item.references) for item in typed_items]
    if lanes is None or any(lane.imitates for lane in chosen) or (purpose and typed_items):
        return None
    options = {
        **_study_models(plan),
        "suite": [suite.source or suite.name for suite in plan.suites if suite.source != SOURCE],
        "prompt": [item.turns[0] for item in typed_items],
        "reference": answers if any(answers) else [],
        **lanes,
        "temperature": _joined(plan.temperatures),
        "seeds": plan.repeats,
        "seed": plan.seed,
        "max_new_tokens": plan.max_new_tokens,
        "margin": f"{plan.margin:g}",
        "top_k": plan.top_k or None,
        "top_p": f"{plan.top_p:g}" if plan.top_p < 1 else None,
        **({} if plan.served else processor_options(plan.processors)),
        **prompt_options(plan),
        "limit": plan.limit,
        "skip_long": plan.skip_long,
        "batch": _batch(plan),
        "time_alone": plan.alone or None,
        "interventions": plan.interventions or None,
        "execute_code": plan.execute_code,
        "equivalence": f"{plan.equivalence:g}" if plan.equivalence != EQUIVALENCE else None,
        "no_placebos": not (placebos or purpose),
        "sharpened": _scales(plan, placebos=placebos),
        "placebo_seeds": seeds if seeds != PLACEBO_SEEDS and seeds else None,
        **_purpose(plan),
        "name": plan.name,
    }
    command = "advise" if plan.advice else "eval match" if plan.matching else "eval run"
    return f"{PROGRAM} {command} {shlex.join(words_of(options))}"


def _lanes(plan: Plan, chosen: Sequence[Lane]) -> CommandOptions | None:
    """Rules, their parameters and drafters; None unless the lanes are every rule with every
    drafter, or follow from strict's runs."""
    purpose = plan.advice or plan.matching
    lanes = [
        (replace(lane.drafter, model=None), lane.rule) for lane in chosen if lane.rule.name != PLAIN
    ]
    drafters = list(dict.fromkeys(drafter for drafter, _ in lanes))
    # rule → parameter → its values in the order of the plan
    values: dict[str, dict[str, dict[float | str, None]]] = {}
    for _, rule in lanes:
        parameters = values.setdefault(rule.name, {})
        for name, value in rule.parameters.items():
            parameters.setdefault(name, {})[value] = None
    planned = {(drafter, rule.name, tuple(rule.parameters.values())) for drafter, rule in lanes}
    expressible = {
        (drafter, rule, each)
        for drafter, (rule, parameters) in product(drafters, values.items())
        for each in product(*parameters.values())
    }
    drafting = {} if plan.served else _drafters(drafters)
    if drafting is None or not (purpose or planned == expressible) or BASELINE not in values:
        return None
    none = [PLAIN] * (plan.none is not None)
    if purpose:
        return {"rules": ",".join([*none, *purpose.rules]), **drafting}
    settings = [
        f"{rule}.{name}={_joined(each)}"
        for rule, parameters in values.items()
        for name, each in parameters.items()
    ]
    return {"rules": ",".join([*none, *values]), "set": settings, **drafting}


def _batch(plan: Plan) -> str | None:
    if plan.batch == 1:
        return None
    return AUTO if plan.auto else _joined(plan.loads or (plan.batch,))


def _purpose(plan: Plan) -> CommandOptions:
    if plan.advice:
        return {"alpha": f"{plan.advice.alpha:g}"}
    matching = plan.matching
    names = {"tau": "tau", "speedup": "speed"}
    return {names[matching.quantity]: f"{matching.target:g}"} if matching else {}


def _without_placebos(plan: Plan) -> tuple[Sequence[Lane], bool]:
    """The lanes that were requested, and whether placebos are added to them, if they have any."""
    chosen = [lane for lane in plan.lanes if not lane.is_control]
    draws = 1 if plan.averages else plan.placebo_seeds or 1
    controlled = with_sharpened(with_placebos(chosen, draws), plan.scales)
    if sorted(map(repr, controlled)) == sorted(map(repr, plan.lanes)):
        return chosen, True
    return plan.lanes, plan.served is not None


def _scales(plan: Plan, *, placebos: bool) -> str | None:
    """None where it is what a plan without the option has."""
    usual = SCALES if placebos and min(plan.temperatures) and not plan.served else ()
    return None if plan.scales == usual else _joined(plan.scales)


def _drafters(drafters: Sequence[DrafterConfig]) -> CommandOptions | None:
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
    shapes = [tree_text(tree) for tree in trees if tree]
    others = [mode.value] * (mode is not DraftMode.COUPLED)
    chains = _joined(lengths) or None
    return {"drafter": ",".join(kinds), "k": chains, "tree": shapes, "draft_mode": others}


def _study_models(plan: Plan) -> CommandOptions:
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
    named = {each: getattr(models, each) for each in ("target", "draft", "head", "classifier")}
    return {option: model_name(ref) for option, ref in named.items() if ref}


def _joined(values: Iterable[float | str]) -> str:
    return ",".join(map(value_text, values))
