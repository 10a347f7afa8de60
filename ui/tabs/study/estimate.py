"""The sentences about a study before its start: how many runs it is, how long they take, and what they
can decide."""

from __future__ import annotations

import math

from evaluation.advise.plans import advisable
from evaluation.advise.predict import MOST_CANDIDATES
from evaluation.betting import least_prompts
from evaluation.format import about, count, plural
from evaluation.recovery import right_answers_needed
from evaluation.report.document.cells import margin
from evaluation.study.plan import Plan
from evaluation.suites.typed import TYPED
from ui.jobs.services import Services
from ui.tabs.study.form import ALPHA, StudyForm, StudyJob, admitted

LEAST_PROMPTS = 5  # of an interval: of fewer it says little


def estimated(services: Services, form: StudyForm) -> str:
    """At the pace of the latest jobs; or why the study cannot be."""
    try:
        job = admitted(services, form)
    except ValueError as error:
        return str(error)
    item = "prompt" if form.suite == TYPED else "problem"
    tokens, most = job.runs * job.plan.max_new_tokens, services.limits.seconds
    seconds = tokens * services.queue.pace_s
    size = advice_size(job, item) if job.advises else study_size(job.plan, item)
    stops = f" It stops after {most} s and can be resumed." if most and seconds > most else ""
    can = advice_decides(job.plan) if job.advises else decides(job.plan, item, seconds)
    return f"{size}, at most {count(tokens)} new tokens: {about(seconds)}.{stops} {can}"


def study_size(plan: Plan, item: str) -> str:
    parts = [plural(plan.items, item), plural(len(plan.lanes), "lane")]
    several = ((plan.repeats, "seed"), (len(plan.temperatures), "temperature"))
    parts += [plural(amount, noun) for amount, noun in several if amount > 1]
    return f"{' × '.join(parts)} = {plural(plan.runs, 'run')}"


def advice_size(job: StudyJob, item: str) -> str:
    tuning, study, _ = advisable(job.plan, ALPHA)
    parts = f"{count(tuning.items)} choose up to {MOST_CANDIDATES} settings, {count(study.items)} test them"
    return f"{plural(job.plan.items, item)} ({parts}): at most {plural(job.runs, 'run')}"


def advice_decides(plan: Plan) -> str:
    """Fewer prompts are refused."""
    needed = count(least_prompts(plan.margin, ALPHA))
    return (
        f"Each setting stops when it is decided: recovery ≥ {margin(plan.margin)} takes {needed} "
        "prompts that strict answers right, more where answers are lost."
    )


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
