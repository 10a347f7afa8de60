"""Whether the answers stay right, in one sentence for each rule of a result that may relax: what the
best study of it on these models found; where there is none, the form of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from display.format import count, percent, plural
from display.names import drafts_label
from evaluation.plan.lane import Lane
from evaluation.recovery import RecoveryOutcome
from evaluation.report.document.cells import beside, margin
from evaluation.report.example import EXAMPLE
from evaluation.report.verdicts import Verdict, Verdicts
from mars_core.models import BUNDLED_PAIR, PairSpec
from mars_core.settings import CHAIN, KINDS
from mars_core.settings.recorded import pair_key
from mars_core.types import RunConfig, number_text, numbers
from ui.jobs.services import Services
from ui.kit.components import Strip
from ui.kit.labels import lane_label

PROBLEMS, LONGEST = 250, 160  # of a study that can decide, where as many may be run; tokens of each
SAYS = {
    RecoveryOutcome.SUPPORTED: ": {} or more.",
    RecoveryOutcome.NOT_SUPPORTED: ": less than {}.",
    RecoveryOutcome.TOO_FEW: "; whether that is {} or more is undecided.",
}


class Safety(NamedTuple):
    """``link``: to the study; ``form``: the values of Quality's form for one, and how long that
    ``takes``; empty where it cannot be run here."""

    text: str
    link: str = ""
    form: Mapping[str, Any] = {}
    takes: str = ""


def assured(strip: Strip, services: Services, verdicts: Verdicts) -> Strip:
    """Return the line above a result with what is known of its rules."""
    relaxed = {
        lane_label(each): each for each in strip.configs if Lane(each.rule, each.drafter).relaxes
    }
    lines = (_safety(services, verdicts, config) for config in relaxed.values())
    return replace(strip, safety=tuple(lines))


def _safety(services: Services, verdicts: Verdicts, config: RunConfig) -> Safety:
    label, at = lane_label(config), f"at T = {config.sampling.temperature:g}"
    found = verdicts.best(services.store, config)
    if found:
        return Safety(_found(found, config, f"{at}, {label}"), _link(found))
    text = f"No study says how much of strict’s score {label} keeps with these models {at}."
    key = pair_key(config, services.catalog)
    spec = next((each for each in services.catalog if each.key == key), None)
    if spec is None or len(numbers(config.rule.parameters)) < len(config.rule.parameters):
        return Safety(text)
    problems = min(PROBLEMS, (services.limits.study_runs or 2 * PROBLEMS) // 2)
    takes = services.duration_of(spec, 2 * problems * LONGEST)
    form = _form(config, spec, problems)
    return Safety(text, "", form, f"on {plural(problems, 'problem')}; {takes}")


def _found(found: Verdict, config: RunConfig, what: str) -> str:
    seeds = f" × {count(found.seeds)} seeds" if found.seeds > 1 else ""
    lane = Lane(config.rule, config.drafter)
    others = "" if found.has_drafts(lane) else f" with other drafts ({drafts_label(found.drafts)})"
    kept = f"kept {beside(found.recovery, percent)} of strict’s score"
    says = SAYS[found.outcome].format(margin(found.margin))
    return (
        f"On {plural(found.prompts, 'prompt')}{seeds} of {found.suite}{others} {what} {kept}{says}"
    )


def _link(found: Verdict) -> str:
    if found.report and found.study != EXAMPLE:
        return f"docs/{found.report}"
    return f"?tab=quality&study={found.study}"


def _form(config: RunConfig, spec: PairSpec, problems: int) -> dict[str, Any]:
    drafter, parameters = config.drafter, numbers(config.rule.parameters)
    lines = (f"{name} = {number_text(value)}" for name, value in parameters.items())
    tree = drafter.tree
    return {
        "pair": spec.key,
        "suite": "demo_arithmetic" if spec.key == BUNDLED_PAIR.key else "instructions",
        "problems": problems,
        "rules": [config.rule.name],
        "parameters": "\n".join(lines),
        "drafter": drafter.kind,
        "tree": KINDS["tree"].text(tree) if tree else CHAIN,
        "k": str(drafter.k),
        "draft_mode": drafter.mode.value,
        "temperature": number_text(config.sampling.temperature),
        "max_new_tokens": LONGEST,
    }
