"""Placebos: as many rejections relaxed as a rule relaxed in the same text, at random places."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from evaluation.plan.lane import Lane
from mars_core.rules import WHERE, expressions
from mars_core.rules.placebo import PLACEBO
from mars_core.types import DraftMode, Outcome, RuleConfig, RunConfig, Token, Trace


def due(traces: Sequence[Trace]) -> dict[str, float]:
    """Return the sums of what a placebo's runs were to relax, and of how many rejections."""
    rules = [trace.config.rule for trace in traces]
    if any(rule.name != PLACEBO.name for rule in rules):
        return {}
    return {
        name: sum(float(rule.parameters[parameter]) for rule in rules)
        for name, parameter in (("due", "relaxed"), ("eligible", "of"))
    }


def placebo_of(trace: Trace, lane: Lane, draw: int, protected: Collection[int] = ()) -> RuleConfig:
    """Return the placebo of a run: as many rejections relaxed as it has relaxed tokens, of as many
    eligible ones: those that it relaxed, and those at which a drafted token that is neither
    ``protected`` nor beyond the ``best`` of the lane was rejected, where the rule decides."""
    relaxed = rejected = 0
    given = trace.config.rule.parameters
    where = {WHERE.name: given[WHERE.name]} if WHERE.name in given else {}
    scoped = bool(where) and len(expressions(given)) == 1
    for step in trace.steps:
        tightened = {token.position for token in step.tokens if _tightened(trace.config, token)}
        for token in step.tokens:
            relaxed += token.outcome is Outcome.RELAXED
            if (
                token.outcome is Outcome.RECOVERED
                and token.position not in tightened
                and not (scoped and token.parameter <= 0)
            ):
                best = (token.id1, token.id2)[: lane.best]
                rejected += any(
                    node.parent == token.parent
                    and node.id not in protected
                    and (node.id in best or not lane.best)
                    for node in step.nodes
                )
    counts = {"relaxed": relaxed, "of": relaxed + rejected, "draw": draw, "best": lane.best}
    return RuleConfig(PLACEBO.name, counts | where)


def _tightened(config: RunConfig, token: Token) -> bool:
    """Return whether it was rejected, and strict accepts it."""
    sampled = config.drafter.mode is DraftMode.SAMPLED and config.sampling.temperature > 0
    strict = token.coin * token.q < token.p if sampled else token.id == token.own
    return token.outcome is Outcome.REJECTED and strict
