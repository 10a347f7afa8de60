"""Work after the start: the default pair is loaded and run once, in the engine's thread, while the
first visitor reads the page."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from mars_core.jobs import RUN_FAILURES, Job
from mars_core.models import ModelError, PairSpec
from mars_core.panics import contained
from mars_core.settings import Settings, read_lane
from mars_core.types import RunConfig
from ui.jobs.services import Services
from ui.kit.errors import fault

if TYPE_CHECKING:
    from mars_core.models import Pair

LOG = logging.getLogger("mars")


def preload(services: Services, failed: Callable[[], None] = lambda: None) -> None:
    """Loads the default pair and runs it once. Without it the page works and reports what is
    missing. What exists by now stays: the garbage collector need not look through it again. A pair
    may be removed, so it is loaded afterwards."""
    try:
        with contained():
            import mars_core.session  # noqa: F401  (with the libraries of the models, which the page itself does not need)

            gc.freeze()
            gc.enable()
            services.pool.get(services.catalog[0])
            if services.accelerator.loads:
                _rehearse(services, services.catalog[0])
    except ModelError as error:
        failed()
        LOG.warning("The pair %r is not available: %s", services.catalog[0].title, error)
    except Exception as error:  # noqa: BLE001  nobody waits for this thread
        failed()
        fault(error, "preload")


def _rehearse(services: Services, spec: PairSpec) -> None:
    """Runs strict and MARS for a few tokens and saves nothing: work that a process does only once
    does not delay the first comparison."""
    from mars_core.accelerators.perform import perform

    with suppress(*RUN_FAILURES):
        configs = first_configs(spec, services.pool.get(spec), 8, spec.prompts[0])
        for _ in perform(services.pool, Job(spec, configs, order=(0, 1)), lambda: False):
            pass


def first_configs(
    spec: PairSpec, pair: Pair, max_new_tokens: int, prompt: str
) -> tuple[RunConfig, ...]:
    """Return strict and MARS on a prompt, with the settings that the page begins with."""
    from mars_core.session import Session

    return Session(pair).configs(
        Settings(
            prompt=prompt,
            rules=(read_lane("strict"), read_lane("mars")),
            temperature=spec.temperature,
            max_new_tokens=max_new_tokens,
        )
    )
