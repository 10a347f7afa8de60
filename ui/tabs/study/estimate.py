"""The sentences about a study before its start: how many runs it is, how long they take, and what they
can decide."""

from __future__ import annotations

from display.format import count, plural
from evaluation.advise.plans import advisable
from evaluation.advise.predict import MOST_CANDIDATES
from evaluation.betting import least_prompts
from evaluation.plan.plan import Plan
from evaluation.recovery import LEAST_PROMPTS
from evaluation.report.document.cells import margin
from evaluation.report.document.verdicts import prompts_needed
from evaluation.suites.typed import TYPED
from ui.jobs.services import Services
from ui.tabs.study.form import ALPHA, StudyForm, StudyJob, admitted


def estimated(services: Services, form: StudyForm) -> str:
    """Return its size, time and what it can decide; or why it cannot be."""
    try:
        job = admitted(services, form)
    except ValueError as error:
        return str(error)
    item = "prompt" if form.text("suite") == TYPED else "problem"
    tokens = job.runs * job.plan.max_new_tokens
    size = advice_size(job, item) if job.advises else study_size(job.plan, item)
    takes = services.duration_of(job.spec, tokens)
    can = advice_decides(job.plan) if job.advises else decides(job.plan, item)
    return f"{can} {size}, at most {count(tokens)} new tokens; {takes}"


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


def decides(plan: Plan, item: str) -> str:
    """Say what so many prompts can decide, whatever the answers are."""
    ratios = "Measures speed-up and τ ratio"
    if not any(suite.metrics for suite in plan.suites):
        return f"{ratios}; nothing is scored."
    if plan.items < LEAST_PROMPTS:
        needed = f"{plural(plan.items, item)}, {LEAST_PROMPTS} needed"
        return f"{ratios}; decides nothing about scores: {needed}."
    return f"{ratios}. {prompts_needed(plan)}"
