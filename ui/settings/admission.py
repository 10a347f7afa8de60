"""Checks of settings before anything is loaded."""

from __future__ import annotations

from mars_core.models import PairSpec
from mars_core.settings import Settings
from ui.jobs.admission import LIST_ONLY, job_errors
from ui.jobs.services import Services


def admit(services: Services, settings: Settings) -> PairSpec:
    """Return the pair of settings whose prompt and pair may be used here. Raises JobError."""
    with job_errors(services):
        if not settings.prompt.strip():
            raise ValueError(
                "The prompt is empty; type one, or take one of the examples under the box."
            )
        services.limits.check_prompt(settings.prompt, settings.system, *settings.stop)
        return chosen_pair(services, settings)


def chosen_pair(services: Services, settings: Settings) -> PairSpec:
    """Return the pair, from the list only where strangers choose. Raises ValueError."""
    if settings.own_models and not services.custom_models:
        raise ValueError(LIST_ONLY)
    return settings.spec(services.catalog)
