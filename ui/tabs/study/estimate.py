"""What is said of a study before its start: how many runs it is, how long they take, and what they
can decide."""

from __future__ import annotations

import math

from evaluation.format import about, count, plural
from evaluation.recovery import right_answers_needed
from evaluation.report.document.cells import margin
from evaluation.study.plan import Plan
from evaluation.suites.typed import TYPED
from ui.jobs.services import Services
from ui.tabs.study.form import StudyForm, admitted

LEAST_PROMPTS = 5  # of an interval: of fewer it says little


def estimated(services: Services, form: StudyForm) -> str:
    """At the pace of the latest jobs; or why the study cannot be."""
    try:
        plan = admitted(services, form)[1]
    except ValueError as error:
        return str(error)
    item = "prompt" if form.suite == TYPED else "problem"
    tokens, most = plan.runs * plan.max_new_tokens, services.limits.seconds
    seconds = tokens * services.queue.pace_s
    parts = [plural(plan.items, item), plural(len(plan.lanes), "lane")]
    several = ((plan.repeats, "seed"), (len(plan.temperatures), "temperature"))
    parts += [plural(amount, noun) for amount, noun in several if amount > 1]
    words = f"{' × '.join(parts)} = {plural(plan.runs, 'run')}, at most {count(tokens)} new tokens"
    stops = f" It stops after {most} s and can be resumed." if most and seconds > most else ""
    return f"{words}: {about(seconds)}.{stops} {decides(plan, item, seconds)}"


def decides(plan: Plan, item: str, seconds: float) -> str:
    """What so many prompts can decide, whatever the answers are. ``seconds``: of all its runs."""
    prompts, needed = plural(plan.items, item), right_answers_needed(plan.margin)
    ratios = "It measures speed-up and τ ratio with intervals"
    if plan.items < LEAST_PROMPTS:
        return f"It decides nothing: {prompts}, {LEAST_PROMPTS} needed."
    if not any(suite.metrics for suite in plan.suites):
        return f"{ratios}; nothing is scored."
    recovery = f"recovery ≥ {margin(plan.margin)}"
    if plan.items >= needed:
        return f"{ratios}, and can confirm {recovery} if strict answers {needed} right."
    longer = about(seconds * needed / plan.items)
    rounded = 10 * math.ceil(needed / 10)
    return f"{ratios}. It cannot confirm {recovery}: {prompts}, about {rounded} needed ({longer})."
