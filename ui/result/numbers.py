"""The tables of a comparison: one row a quantity, one column a run; the settings of a run as such
rows; and the self-check of lossless rules. Plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from display.blocks import Head, ReportTable, TableCell
from display.format import MISSING, bounded, count, duration, memory, number, plural, share
from display.names import parameters_text, rule_title
from evaluation.statistics import over
from mars_core.drafting import described
from mars_core.rules import RULES
from mars_core.settings import KINDS, Settings
from mars_core.settings.kind import Number, Words
from mars_core.settings.table import OF_RUNS, value_in
from mars_core.types import (
    SUMMARY_FIELDS,
    UNKNOWN,
    ModelRef,
    RunConfig,
    ShiftKind,
    Summary,
    Trace,
)
from ui.kit.labels import draft_length, exact_text, lane_labels, run_names, setting
from ui.kit.values import Check
from ui.result.sentence import SpeedRatio
from ui.token_view.tiles import RELAXED_BOUND, lane_check, relaxed_bound


class RunQuantity(NamedTuple):
    """One row: how it is called, and the field of a summary that it is."""

    name: str
    field: str

    @property
    def help(self) -> str:
        about = SUMMARY_FIELDS[self.field]
        return f"{about.meaning}, {about.unit}" if about.unit else about.meaning

    @property
    def write(self) -> Callable[[float], str]:
        """How it is written: by its unit, or as a share or a count."""
        about = SUMMARY_FIELDS[self.field]
        if self.field in ("acceptance_rate", "relaxed_share", "shifted_share"):
            return share
        whole = integer if about.kind is int else number
        return {"s": duration, "bytes": memory}.get(about.unit, whole)

    def read(self, summary: Summary) -> float:
        """Return the value; nan for a count that a server did not report."""
        value: float = getattr(summary, self.field)
        return math.nan if isinstance(value, int) and value == UNKNOWN else float(value)

    def cell(self, trace: Trace) -> TableCell:
        """Mark what is an upper bound; the sum of missing TVs is bounded by an estimate."""
        kind, summary = trace.config.shift_kind, trace.summary
        if self.field == "tv_sum" and kind is ShiftKind.MISSING and summary.new_tokens:
            return TableCell(f"{relaxed_bound(summary)}, {RELAXED_BOUND}")
        text = self.write(self.read(summary))
        of_shift = self.field.startswith(("tv_", "kl_", "shifted"))
        return TableCell(bounded(text, kind) if of_shift else text)


def integer(value: float) -> str:
    return MISSING if math.isnan(value) else count(int(value))


def quantities(**names: str) -> tuple[RunQuantity, ...]:
    """Return the rows of these fields of a summary."""
    return tuple(RunQuantity(name, field) for field, name in names.items())


QUANTITIES = quantities(
    wall_s="Total latency",
    ttft_s="Time to first token",
    tokens_per_s="Tokens per second",
    tau="τ, tokens per step",
    acceptance_rate="Acceptance rate",
    relaxed_share="Relaxed share",
    new_tokens="Output length",
    steps="Target passes",
)
LOOP_QUANTITIES = quantities(
    loop_start="Repeats from",
    tau_before_loop="τ before the loop",
    tokens_per_s_before_loop="Tokens per second before it",
)
SHIFT_QUANTITIES = quantities(
    tv_sum="TV, summed",
    tv_mean="TV, mean",
    tv_max="TV, largest",
    kl_sum="KL, summed",
    kl_mean="KL, mean",
    kl_max="KL, largest",
    shifted_share="Shifted steps",
    log_likelihood="Log-likelihood",
    perplexity="Perplexity",
)


def quantities_of(traces: Sequence[Trace]) -> tuple[RunQuantity, ...]:
    looped = any(trace.summary.loop_tokens > 0 for trace in traces)
    return (*QUANTITIES, *LOOP_QUANTITIES) if looped else QUANTITIES


def run_table(
    label: str,
    traces: Sequence[Trace],
    quantities: Sequence[RunQuantity],
    paces: Sequence[SpeedRatio] = (),
    note: str = "",
) -> ReportTable:
    """Return one row a quantity, one column a run, by lane. ``paces``, as ``verdict`` has them:
    each after the first is followed by its difference from the first."""
    configs = [trace.config for trace in traces]
    names = run_names(configs)
    heads = [Head("")]
    rows = [[TableCell(each.name, help=each.help)] for each in quantities]
    for lane, (name, trace) in enumerate(zip(names, traces, strict=True)):
        heads.append(Head(lane_labels(configs)[lane] if paces else name))
        for row, each in zip(rows, quantities, strict=True):
            row.append(each.cell(trace))
        if lane and paces:
            heads.append(Head(f"{name} against {names[0]}"))
            for row, each in zip(rows, quantities, strict=True):
                row.append(_difference_cell(each, traces[0], trace, paces[lane]))
    return ReportTable(label, tuple(heads), tuple(map(tuple, rows)), note)


def _difference_cell(
    quantity: RunQuantity, first: Trace, trace: Trace, pace: SpeedRatio
) -> TableCell:
    """Return of times only what ``speed_ratio`` says, of which the latency follows with the ratio
    of the lengths; nothing where it says nothing. Nothing else has a verdict: relaxing raises τ and
    acceptance by definition, and latency and passes fall where the text is only shorter."""
    timed = quantity.field in ("wall_s", "tokens_per_s")
    if quantity.field in ("ttft_s", "tokens_per_s_before_loop") or (timed and not pace.measured):
        return TableCell("")
    if quantity.field == "tokens_per_s":
        verdict = ("better", "good") if pace.ratio.value > 1 else ("worse", "bad")
        return TableCell(pace.text, *(verdict if pace.measurable else ()))
    if quantity.field == "wall_s":
        lengths = over(trace.summary.new_tokens, first.summary.new_tokens)
        longer = _relative(lengths / pace.ratio.value, "longer", "shorter")
        tokens = f" for {_relative(lengths, 'more', 'fewer')} tokens" if lengths != 1 else ""
        return TableCell(f"{longer}{tokens}")
    difference = quantity.read(trace.summary) - quantity.read(first.summary)
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
    checks = [lane_check(trace.config, trace.summary) for trace in traces]
    stated = sorted(
        (check for check in checks if check.state), key=lambda check: check.state != "bad"
    )
    if not stated:
        titles = " or ".join(rule.title for rule in RULES.values() if rule.lossless)
        return Check(
            "ok", f"No self-check: none of these rules is lossless. Add {titles} to have one."
        )
    return Check(stated[0].state, " ".join(dict.fromkeys(check.text for check in stated)))


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


def _setting(name: str) -> Setting:
    """Return the row of a setting of the table; what is off is left out."""
    kind, usual = KINDS[name], getattr(Settings(), name)

    def read(config: RunConfig) -> str:
        value = value_in(config, name)
        if isinstance(kind, Words):
            return ", ".join(kind.plain(value))
        if isinstance(kind, Number):
            return "" if value == usual and "is off" in kind.help else setting(value)
        return "default" if value is None else kind.text(value)

    return kind.heading(name), kind.help, read


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
    *(_setting(name) for name in OF_RUNS if name != "prefix"),
    (
        "Continued",
        "from a chosen token",
        lambda c: f"after {count(len(c.prefix))} given tokens" if c.prefix else "",
    ),
    ("Prompt", "the user's message", lambda c: c.prompt.text),
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
