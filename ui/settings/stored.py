"""A stored comparison as the settings that repeat it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from mars_core.models import PairSpec
from mars_core.settings import Settings
from mars_core.settings.recorded import first_drafting, settings_of
from mars_core.types import RunConfig
from storage import StoredComparison
from ui.settings.values import MOST_LANES


def stored_settings(stored: StoredComparison, catalog: Sequence[PairSpec]) -> Settings:
    """Return the settings of Compare that repeat this comparison, without a continuation. Raises
    ValueError where it has no run, or goes on from earlier turns."""
    config = richest(stored)
    if config is None:
        raise ValueError("This comparison has no run, so that there are no settings to load.")
    if "server" in config.environment:
        raise ValueError(
            "This is a run of a server, whose models are not loaded here; Compare cannot repeat it."
        )
    if config.prompt.history:
        raise ValueError(
            f"This is turn {len(config.prompt.history) + 1} of a conversation; Compare has no "
            "field for the turns before."
        )
    settings = settings_of([run.trace.config for run in stored.runs], catalog)
    repeats = 1 + len(stored.repeats) // len(stored.runs) if stored.repeats else 0
    return replace(settings, repeats=repeats, prefix=())


def few(stored: StoredComparison, wanted: Collection[str]) -> StoredComparison:
    """Return at most as many runs as the page has lanes: a study compares more. Those that are
    wanted, by id, else the first ones."""
    if len(stored.runs) <= MOST_LANES:
        return stored
    chosen = [run for run in stored.runs if run.id in wanted] or stored.runs
    runs = tuple(replace(run, lane=lane) for lane, run in enumerate(chosen[:MOST_LANES]))
    return replace(stored, runs=runs, repeats=())


def richest(stored: StoredComparison) -> RunConfig | None:
    configs = [run.trace.config for run in stored.runs]
    return first_drafting(configs) if configs else None
