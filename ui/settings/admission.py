"""Checks of a form before anything is loaded."""

from __future__ import annotations

from mars_core.models import CUSTOM, PairSpec
from ui.jobs.admission import LIST_ONLY, job_errors
from ui.jobs.services import Services
from ui.settings.form import Form, RunForm
from ui.settings.readers import catalog_pair, read_custom_pair, read_prompt


def admit(services: Services, form: Form) -> PairSpec:
    """The pair of a form whose prompt and pair may be used here. Raises JobError."""
    with job_errors(services):
        prompt = read_prompt(form)
        services.limits.check_prompt(prompt.text, prompt.system, *prompt.stop)
        return chosen_pair(services, form)


def chosen_pair(services: Services, form: RunForm) -> PairSpec:
    """The pair of a form, from the list only where strangers choose. Raises ValueError."""
    if form.pair != CUSTOM:
        return catalog_pair(form.pair, services.catalog)
    if not services.custom_models:
        raise ValueError(LIST_ONLY)
    return read_custom_pair(form.own_target, form.own_draft, form.own_head)
