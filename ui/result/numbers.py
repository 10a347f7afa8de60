"""The tables of a comparison: one row a quantity, one column a run; the settings of a run as such
rows; and the self-check of lossless rules. Plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from display.blocks import Head, ReportTable, TableCell
from display.format import MISSING, bounded, count, duration, number, plural, share
from evaluation.statistics import over
from mars_core.drafting import described
from mars_core.rules import RULES
from mars_core.types import UNKNOWN, ModelRef, RunConfig, ShiftKind, Summary, Trace
from ui.kit.labels import (
    draft_length,
    exact_text,
    lane_label,
    parameters_text,
    processors_text,
    rule_title,
    run_names,
    setting,
)
from ui.kit.values import Check
from ui.result.speed import SpeedRatio
from ui.settings.values import field_values
from ui.token_view.tiles import RELAXED_BOUND, lane_check, relaxed_bound

NUMBERS = "Numbers"


@dataclass(frozen=True, slots=True)
class RunQuantity:
    """One row: how it is called, the field of a summary that it is, and how it is written."""

    name: str
    help: str
    field: str
    write: Callable[[float], str]

    def read(self, summary: Summary) -> float:
        """nan for a count that a server did not report."""
        value: float = getattr(summary, self.field)
        return math.nan if isinstance(value, int) and value == UNKNOWN else float(value)


def integer(value: float) -> str:
    return MISSING if math.isnan(value) else count(int(value))


QUANTITIES: tuple[RunQuantity, ...] = (
    RunQuantity("Total latency", "wall time from the prompt to the last token", "wall_s", duration),
    RunQuantity("Time to first token", "prefill and the first step", "ttft_s", duration),
    RunQuantity("Tokens per second", "new tokens / total latency", "tokens_per_s", number),
    RunQuantity(
        "τ, tokens per step",
        "mean acceptance length, with the recovered or bonus token",
        "tau",
        number,
    ),
    RunQuantity(
        "Acceptance rate", "kept drafted tokens / drafted tokens", "acceptance_rate", share
    ),
    RunQuantity(
        "Relaxed share",
        "tokens that the rule keeps and strict rejects / new tokens",
        "relaxed_share",
        share,
    ),
    RunQuantity("Output length", "new tokens", "new_tokens", integer),
    RunQuantity(
        "Target passes", "decoding steps, each one forward pass of the target", "steps", integer
    ),
)

LOOP_QUANTITIES: tuple[RunQuantity, ...] = (
    RunQuantity(
        "Repeats from", "new tokens before the text repeats its end", "loop_start", integer
    ),
    RunQuantity("τ before the loop", "of the steps before it", "tau_before_loop", number),
    RunQuantity(
        "Tokens per second before it",
        "to the end of these steps",
        "tokens_per_s_before_loop",
        number,
    ),
)


def quantities_of(traces: Sequence[Trace]) -> tuple[RunQuantity, ...]:
    looped = any(trace.summary.loop_tokens > 0 for trace in traces)
    return (*QUANTITIES, *LOOP_QUANTITIES) if looped else QUANTITIES


SHIFT_QUANTITIES: tuple[RunQuantity, ...] = (
    RunQuantity(
        "TV, summed",
        "total variation between the distribution of the emitted token and p, over all positions; "
        "0 is lossless",
        "tv_sum",
        number,
    ),
    RunQuantity("TV, mean", "per emitted token", "tv_mean", number),
    RunQuantity("TV, largest", "at any one position; at most 1", "tv_max", number),
    RunQuantity(
        "KL, summed",
        "KL(P‖p) in nats, P: distribution of the emitted token; ∞ where P may emit what p excludes",
        "kl_sum",
        number,
    ),
    RunQuantity("KL, mean", "nats per emitted token", "kl_mean", number),
    RunQuantity("KL, largest", "nats, at any one position", "kl_max", number),
    RunQuantity(
        "Shifted steps",
        "decoding steps in which the distribution of an emitted token differs from p",
        "shifted_share",
        share,
    ),
    RunQuantity(
        "Log-likelihood",
        "ln of the target's probability of the full text, at temperature 1 and unfiltered",
        "log_likelihood",
        number,
    ),
    RunQuantity(
        "Perplexity",
        "exp(−log-likelihood / tokens): how surprising the text is to the target; a lower one is "
        "no better text",
        "perplexity",
        number,
    ),
)


def comparison_table(traces: Sequence[Trace], paces: Sequence[SpeedRatio]) -> ReportTable:
    """Runs by lane; each after the first with its difference from the first. ``paces``: as
    ``verdict`` has them."""
    labels = [lane_label(trace.config) for trace in traces]
    names = run_names([trace.config for trace in traces])
    heads = [
        head
        for label, name in zip(labels[1:], names[1:], strict=True)
        for head in (label, f"{name} against {names[0]}")
    ]
    rows = tuple(_row(quantity, traces, paces) for quantity in quantities_of(traces))
    return ReportTable(NUMBERS, tuple(map(Head, ("", labels[0], *heads))), rows)


def _row(
    quantity: RunQuantity, traces: Sequence[Trace], paces: Sequence[SpeedRatio]
) -> tuple[TableCell, ...]:
    values = [quantity.read(trace.summary) for trace in traces]
    cells = [_name(quantity), TableCell(quantity.write(values[0]))]
    for value, trace, pace in list(zip(values, traces, paces, strict=True))[1:]:
        lengths = over(trace.summary.new_tokens, traces[0].summary.new_tokens)
        cells += [
            TableCell(quantity.write(value)),
            _difference_cell(quantity, value - values[0], pace, lengths),
        ]
    return tuple(cells)


def _name(quantity: RunQuantity) -> TableCell:
    return TableCell(quantity.name, help=quantity.help)


def _difference_cell(
    quantity: RunQuantity, difference: float, pace: SpeedRatio, lengths: float
) -> TableCell:
    """Return of times only what ``speed_ratio`` says, of which the latency follows with the ratio
    of the ``lengths``; nothing where it says nothing. Nothing else has a verdict: relaxing raises τ
    and acceptance by definition, and latency and passes fall where the text is only shorter."""
    timed = quantity.field in ("wall_s", "tokens_per_s")
    if quantity.field in ("ttft_s", "tokens_per_s_before_loop") or (timed and not pace.measured):
        return TableCell("")
    if quantity.field == "tokens_per_s":
        verdict = ("better", "good") if pace.ratio.value > 1 else ("worse", "bad")
        return TableCell(pace.text, *(verdict if pace.measurable else ()))
    if quantity.field == "wall_s":
        longer = _relative(lengths / pace.ratio.value, "longer", "shorter")
        tokens = f" for {_relative(lengths, 'more', 'fewer')} tokens" if lengths != 1 else ""
        return TableCell(f"{longer}{tokens}")
    return TableCell(signed(quantity.write, difference))


def _relative(factor: float, more: str, less: str) -> str:
    """Return ``25 % more``."""
    change = f"{number(100 * abs(factor - 1), 2)} %"
    return f"{change} {more if factor > 1 else less}"


def signed(write: Callable[[float], str], difference: float) -> str:
    """Return a difference as the quantity is written, with its sign; of shares in percentage
    points; empty where it is not a number."""
    if not math.isfinite(difference):
        return ""
    if difference == 0:
        return "±0"
    written = f"{number(100 * difference)} pp" if write is share else write(abs(difference))
    return f"+{written}" if difference > 0 else f"\N{MINUS SIGN}{written.lstrip(chr(0x2212))}"


def self_check(traces: Sequence[Trace]) -> Check:
    """Return the verdicts on all lossless runs as one line, a failed one first."""
    checks = [lane_check(t.config, t.summary.tv_max, t.summary.new_tokens) for t in traces]
    stated = sorted(
        (check for check in checks if check.state), key=lambda check: check.state != "bad"
    )
    if not stated:
        titles = " or ".join(rule.title for rule in RULES.values() if rule.lossless)
        return Check(
            "ok", f"No self-check: none of these rules is lossless. Add {titles} to have one."
        )
    return Check(stated[0].state, " ".join(dict.fromkeys(check.text for check in stated)))


def summary_table(
    label: str, traces: Sequence[Trace], quantities: Sequence[RunQuantity]
) -> ReportTable:
    """Return one row a quantity, one column a run, and no ratios: of a shift the yardstick is 0."""
    names = run_names([trace.config for trace in traces])
    rows = [(_name(each), *(_shift_cell(each, trace) for trace in traces)) for each in quantities]
    return ReportTable(label, tuple(map(Head, ("", *names))), tuple(rows))


def _shift_cell(quantity: RunQuantity, trace: Trace) -> TableCell:
    """Marked where it is an upper bound; the sum of missing TVs is bounded by an estimate."""
    kind, summary = trace.config.shift_kind, trace.summary
    if quantity.field == "tv_sum" and kind is ShiftKind.MISSING and summary.new_tokens:
        return TableCell(f"{relaxed_bound(summary.relaxed, summary.new_tokens)}, {RELAXED_BOUND}")
    text = quantity.write(quantity.read(summary))
    return TableCell(
        bounded(text, kind) if quantity.field.startswith(("tv_", "kl_", "shifted")) else text
    )


def infinite_note(traces: Sequence[Trace]) -> str:
    """Return why there is an ∞ in the table; empty where there is none."""
    if not any(trace.summary.kl_sum == float("inf") for trace in traces):
        return ""
    if all(trace.config.sampling.temperature == 0 for trace in traces):
        return "∞: at temperature 0, p excludes every token but one, so that any other that a rule may emit is infinitely far."
    shifted = sum(trace.summary.kl_sum == float("inf") for trace in traces)
    return f"∞: {plural(shifted, 'run')} could emit a token that p excludes (temperature 0, top-k or top-p)."


Setting = tuple[str, str, Callable[[RunConfig], str]]  # name, help, how it is read


def _model(ref: ModelRef | None) -> str:
    if ref is None:
        return ""
    return f"{ref.name}@{ref.revision}" if ref.revision else ref.name


def _off(value: float, off: float) -> str:
    return "off" if value == off else setting(value)


def _versions(config: RunConfig) -> str:
    return ", ".join(
        f"{name} {text}"
        for name, text in config.environment.items()
        if name not in ("device", "dtype", "tv")
    )


SETTINGS: tuple[Setting, ...] = (
    ("Rule", "the verification rule", lambda c: rule_title(c.rule.name)),
    ("Parameters", "of the rule", lambda c: parameters_text(c.rule.parameters)),
    (
        "Drafts from",
        "where drafted tokens come from",
        lambda c: described(c.drafter.kind).title,
    ),
    ("Drafter", "model or head, with its revision", lambda c: _model(c.drafter.model)),
    (
        "K",
        "drafted tokens a step, or the shape of the draft tree",
        lambda c: draft_length(c.drafter),
    ),
    (
        "Draft mode",
        "how the drafter picks its tokens",
        lambda c: c.drafter.mode.value if len(described(c.drafter.kind).modes) > 1 else "",
    ),
    ("Target", "with its revision", lambda c: _model(c.target)),
    ("Temperature", "0 is greedy", lambda c: setting(c.sampling.temperature)),
    ("Top-k", "likeliest tokens that may be drawn", lambda c: _off(c.sampling.top_k, 0)),
    ("Top-p", "probability that may be drawn", lambda c: _off(c.sampling.top_p, 1)),
    (
        "More sampling",
        "further logits processors, and protected tokens",
        lambda c: processors_text(c.sampling.processors),
    ),
    ("Max new tokens", "at most so many are written", lambda c: setting(c.max_new_tokens)),
    ("Seed", "of all random numbers", lambda c: setting(c.seed)),
    (
        "Continued",
        "from a chosen token",
        lambda c: f"after {count(len(c.prefix))} given tokens" if c.prefix else "",
    ),
    ("Prompt", "the user's message", lambda c: c.prompt.text),
    ("System prompt", "the message before it", lambda c: c.prompt.system),
    (
        "Chat template",
        "where the tokenizer has one",
        lambda c: "used" if c.prompt.chat else "not used",
    ),
    (
        "Thinking",
        "of chat templates that have such a switch",
        lambda c: field_values("thinking", c.prompt.thinking)["thinking"],
    ),
    ("Stop strings", "at which a text ends", lambda c: ", ".join(map(repr, c.prompt.stop))),
    ("Device", "on which it ran", lambda c: c.environment.get("device", "")),
    ("Number format", "of weights and activations", lambda c: c.environment.get("dtype", "")),
    (
        "Exact",
        "passes of the target in which a token’s logits depend on nothing but the text before it; "
        "or why not",
        exact_text,
    ),
    ("Versions", "of program and libraries", _versions),
)
