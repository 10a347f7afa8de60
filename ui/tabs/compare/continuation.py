"""One more run of the comparison that is displayed: what a visitor can ask for, and its
configuration."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr

from mars_core.telemetry import spent_before
from mars_core.types import RuleConfig, RunConfig, Trace
from ui.kit.events import event_data
from ui.settings.values import MOST_LANES


@dataclass(frozen=True, slots=True)
class ContinuationRequest:
    """One more run of the comparison that is displayed: ``column`` up to output position ``index``,
    continued with ``token``; or, with ``theta``, its latest run that has a θ (else its last, under
    MARS) with another; or, ``rejected``, what would have followed without the relaxed token at
    ``index``. ``nonce`` distinguishes two equal requests."""

    column: int = 0
    index: int = 0
    token: int = 0
    theta: float | None = None
    rejected: bool = False
    nonce: float = field(default_factory=random.random)


def read_continuation(event: gr.EventData) -> Any:
    names = ("lane", "index", "token", "theta", "rejected")
    column, index, token, theta, rejected = map(event_data(event).get, names)
    if isinstance(theta, int | float) and 0 <= theta <= 1:
        return ContinuationRequest(theta=float(theta))
    if isinstance(column, int) and isinstance(index, int):
        if rejected is True:
            return ContinuationRequest(column, index, rejected=True)
        if isinstance(token, int):
            return ContinuationRequest(column, index, token)
    return gr.skip()


def continuation_config(
    columns: Sequence[Trace | None], continuation: ContinuationRequest
) -> RunConfig:
    """Return the configuration of the new run; ``columns``: what the lanes show. Raises ValueError."""
    known = [trace for trace in columns if trace is not None]
    theta, column = continuation.theta, continuation.column
    source = columns[column] if theta is None and 0 <= column < len(columns) else None
    if not known or (theta is None and source is None):
        raise ValueError("There is no run to continue in this lane; press Compare first.")
    if len(known) < len(columns) or len(columns) >= MOST_LANES:
        raise ValueError(
            f"All {MOST_LANES} lanes are in use or one is empty; remove one, then try again."
        )
    here = [trace.config for trace in ([source] if source else known) if not trace.config.served]
    if not here:
        raise ValueError("A server wrote this lane; only one that is decoded here goes on.")
    if source is None:
        config = next(
            (config for config in reversed(here) if "theta" in config.rule.parameters), here[-1]
        )
        name = config.rule.name if "theta" in config.rule.parameters else "mars"
        return replace(config, rule=RuleConfig(name, {"theta": theta or 0.0}))
    ids, index = (*source.config.prefix, *source.token_ids), continuation.index
    if not 0 <= index < len(ids):
        raise ValueError(
            f"The output position is {index}; this run has positions 0 to {len(ids) - 1}."
        )
    longest = len(source.config.prefix) + source.config.max_new_tokens - index - 1
    if longest < 1:
        raise ValueError(
            f"Position {index} is the last that these settings allow; raise “Max new tokens” to go "
            "on from it."
        )
    return replace(
        source.config,
        prefix=(*ids[:index], continuation.token),
        max_new_tokens=longest,
        spent=spent_before(source, index),
    )
