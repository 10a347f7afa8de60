"""The shift meter as plain values: how far the emitted law is from the target's, and the self-check of lossless rules. No gradio."""

from __future__ import annotations

from collections.abc import Sequence

from mars_core.types import RunConfig, Trace
from ui.kit.format import number, plural, share
from ui.kit.labels import rule_title, run_names
from ui.kit.values import UNCHECKED, Cell, Check, Table
from ui.report.table import Quantity

LOSSLESS = ("none", "strict", "block")  # whose emitted law is p, whatever is drafted
FLOAT_ERROR = 1e-6  # a larger total variation is no rounding

QUANTITIES: tuple[Quantity, ...] = (
    Quantity("TV, summed", "total variation between the law of the emitted token and p, over all positions; 0 is lossless", lambda
    s: s.tv_sum, number),
    Quantity("TV, mean", "per emitted token", lambda s: s.tv_mean, number),
    Quantity("TV, largest", "at any one position; at most 1", lambda s: s.tv_max, number),
    Quantity("KL, summed", "KL(P‖p) in nats, P the law of the emitted token; ∞ where P may emit what p excludes", lambda
    s: s.kl_sum, number),
    Quantity("KL, mean", "nats per emitted token", lambda s: s.kl_mean, number),
    Quantity("KL, largest", "nats, at any one position", lambda s: s.kl_max, number),
    Quantity("Shifted steps", "decoding steps in which any emitted token's law differs from p", lambda
    s: s.shifted_share, share),
    Quantity("Log-likelihood", "ln of the target's probability of the whole text, at temperature 1 and unfiltered", lambda
    s: s.log_likelihood, number),
    Quantity("Perplexity", "exp(−log-likelihood / tokens): how surprising the text is to the target", lambda
    s: s.perplexity, number),
)  # fmt: skip


def lossless(config: RunConfig) -> bool:
    return config.rule.name in LOSSLESS


def lane_check(config: RunConfig, tv_max: float, tokens: int) -> Check:
    """The self-check of one run, while it goes and after: a lossless rule must shift nothing."""
    if not lossless(config) or not tokens:
        return UNCHECKED
    title = rule_title(config.rule.name)
    if tv_max > FLOAT_ERROR:
        return Check(
            "bad", f"Self-check failed: {title} must not shift the law, but its largest TV is {number(tv_max)}."
        )
    return Check("ok", f"Self-check: {title} shifted nothing (largest TV {number(tv_max)}).")


def self_check(traces: Sequence[Trace]) -> Check:
    """The verdicts on all lossless runs as one line, a failed one first."""
    checks = [lane_check(t.config, t.summary.tv_max, t.summary.new_tokens) for t in traces]
    said = sorted((check for check in checks if check.state), key=lambda check: check.state != "bad")
    if not said:
        titles = " or ".join(map(rule_title, LOSSLESS))
        return Check("ok", f"No self-check: none of these rules is lossless. Add {titles} to have one.")
    return Check(said[0].state, " ".join(dict.fromkeys(check.text for check in said)))


def shift_table(traces: Sequence[Trace]) -> Table:
    """One column a run; no ratios, for the yardstick is 0."""
    return summary_table(traces, QUANTITIES)


def summary_table(traces: Sequence[Trace], quantities: Sequence[Quantity]) -> Table:
    """One row a quantity, one column a run, and no ratios."""
    names = run_names([trace.config for trace in traces])
    rows = tuple(
        (quantity.name, quantity.help, tuple(Cell(quantity.write(quantity.read(t.summary))) for t in traces))
        for quantity in quantities
    )
    return Table(("", *names), rows)


def infinite_note(traces: Sequence[Trace]) -> str:
    """Why there is an ∞ in the table; empty where there is none."""
    if not any(trace.summary.kl_sum == float("inf") for trace in traces):
        return ""
    if all(trace.config.sampling.temperature == 0 for trace in traces):
        return "∞: at temperature 0, p excludes every token but one, so that any other that a rule may emit is infinitely far."
    shifted = sum(trace.summary.kl_sum == float("inf") for trace in traces)
    return f"∞: {plural(shifted, 'run')} could emit a token that p excludes (temperature 0, top-k or top-p)."
