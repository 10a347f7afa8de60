"""``mars run | compare | fetch``."""

from __future__ import annotations

import json
import math
import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evaluation.progress import show_progress
from evaluation.served.lane import server_keys
from mars_core.jobs import Job, RecordedRun, Wrote, execution_order, follow, servers_last
from mars_core.lazy import imported
from mars_core.margins import gap_ties, meaning
from mars_core.models import ModelPool, PairSpec
from mars_core.models.gguf import fetch_default, hash_ahead
from mars_core.settings.command_line import machine, read_settings, threshold_lines
from mars_core.telemetry import beyond_head, counted_note, first_divergence
from mars_core.types import (
    ANSWER,
    SERVER,
    UNKNOWN,
    Cause,
    RunConfig,
    ShiftKind,
    Status,
    Trace,
    value_text,
)
from mars_playground.output import report_bad_input, show

if TYPE_CHECKING:
    from mars_core.models import Pair


def main(options: Namespace) -> int:
    try:
        if options.command == "fetch":
            _import_libraries()
            folder = fetch_default(show_progress, options.file)
            show_progress("")
            show(f"The default model is in {folder}.")
            return 0
        settings = read_settings(options)
        keys = server_keys(settings, os.environ)
        answers: Sequence[Trace] = ()
        if options.command == "compare" and options.answer:
            from evaluation.records.beside import answers_beside  # it brings the database along

            answers = answers_beside(options.answer, settings.prompt_config, len(settings.rules))
        spec = settings.spec()
        hash_ahead(spec.target, spec.draft)
        _import_libraries()
        from mars_core.session import Session

        pool = ModelPool(**machine(settings))
        session = Session(pool.get(spec, show_progress))
        configs = session.configs(settings)
        for config in configs:
            session.check(config)
    except ValueError as error:  # ModelError is one
        return report_bad_input(error)
    traces = _run_all(pool, session.pair.spec, configs, keys)
    if traces:
        traces += answers if len(traces) == len(configs) else ()
        show(_document(traces, session.pair) if options.json else _report(traces, session.pair))
    if len(traces) < len(configs) or any(trace.status is Status.CANCELLED for trace in traces):
        return 130
    return 1 if any(trace.status is Status.FAILED for trace in traces) else 0


def _import_libraries() -> None:
    """Import torch and transformers, which takes seconds; without SciPy's optimisers, which
    transformers takes along for the losses of object detection."""
    show_progress("Loading torch and transformers")
    utils: Any = imported("transformers.utils")
    has_scipy, utils.is_scipy_available = utils.is_scipy_available, lambda: False
    try:
        imported("mars_playground.running")
    finally:
        utils.is_scipy_available = has_scipy
    utils.logging.set_verbosity_error()


def _run_all(
    pool: ModelPool, spec: PairSpec, configs: Sequence[RunConfig], keys: Mapping[str, str]
) -> list[Trace]:
    """Return the traces in the order of the configs, run in random order. Ctrl-C ends the current
    run and skips the rest."""
    order = servers_last(execution_order(len(configs)), configs)
    job = Job(spec, tuple(configs), order, interval_s=0)
    records: dict[int, RecordedRun] = {}
    from mars_playground.running import all_runs

    with suppress(KeyboardInterrupt):
        for event in all_runs(pool, job, keys):
            follow(records, event)
            if isinstance(event, Wrote) and event.steps:
                step = event.steps[-1].index + 1
                show_progress(
                    f"run {len(records)} of {len(configs)}: {_label(configs[event.run])}, step "
                    f"{step}"
                )
    show_progress("")
    return [records[number].trace() for number in sorted(records)]


def _document(traces: list[Trace], pair: Pair) -> str:
    runs = [
        {
            "rule": trace.config.rule.name,
            "status": trace.status,
            "stop_reason": trace.stop_reason,
            "error": trace.error,
            "config": asdict(trace.config),
            "token_ids": trace.token_ids,
            "text": trace.text,
            "tokens": [asdict(token) for step in trace.steps for token in step.tokens],
            "steps": [
                {key: value for key, value in asdict(step).items() if key != "tokens"}
                for step in trace.steps
            ],
            "summary": asdict(trace.summary),
            "threshold": (means := meaning(trace.config.rule, pair.margins)) and means._asdict(),
            "divergence": (divergence := first_divergence(traces[0], trace)) and asdict(divergence),
        }
        for trace in traces
    ]
    document = json.dumps(
        {"config": asdict(traces[0].config), "prompt_ids": traces[0].prompt_ids, "runs": runs}
    )
    # JSON has no NaN: an undefined rate is null.
    return json.dumps(json.loads(document, parse_constant=lambda _constant: None))


def _report(traces: list[Trace], pair: Pair) -> str:
    """Return the texts, what the thresholds mean on the pair, and a table of the numbers."""
    lines = [
        f"── {_label(trace.config)} ──\n{trace.text}\n{_ending(traces[0], trace)}\n"
        for trace in traces
    ]
    if (exact := traces[0].config.environment.get("exact", "")).startswith("no"):
        lines.append(f"not exact{exact[2:]}: strict can differ from none by rounding\n")
    lines += [
        f"{line}\n" for line in threshold_lines([trace.config.rule for trace in traces], pair)
    ]
    notes = [
        *map(beyond_head, traces),
        *map(counted_note, traces),
        *(f"{_label(each.config)}: {ties}" for each in traces if (ties := gap_ties(each)[1])),
    ]
    lines += [f"{note}\n" for note in dict.fromkeys(notes) if note]
    wide = max(24, *(len(_label(trace.config)) + 2 for trace in traces))
    head = f"{'':{wide}}{'tokens':>8}{'wall s':>9}{'TTFT ms':>9}{'tok/s':>8}{'passes':>8}{'τ':>7}{'accepted':>10}{'relaxed':>9}"
    head += f"{'Σ TV':>9}{'max TV':>9}{'Σ KL':>9}{'shifted':>9}{'log-lik.':>10}{'perpl.':>8}"
    rows = [
        f"{_label(trace.config):{wide}}{_count(s.new_tokens):>8}{s.wall_s:>9.2f}{1000 * s.ttft_s:>9.0f}{s.tokens_per_s:>8.1f}"
        f"{_count(s.steps):>8}{s.tau:>7.2f}{s.acceptance_rate:>10.0%}{_count(s.relaxed):>9}"
        f"{_shift(trace, s.tv_sum)}{_shift(trace, s.tv_max)}{_shift(trace, s.kl_sum)}{s.shifted_share:>9.0%}"
        f"{s.log_likelihood:>10.1f}{s.perplexity:>8.2f}"
        for trace in traces
        for s in (trace.summary,)
    ]
    if any(trace.config.shift_kind is ShiftKind.MISSING for trace in traces):
        rows.append(
            "TV and KL are not known for such drafts; the TV of a text is at most the expected "
            "number of its relaxed tokens"
        )
    # Undefined numbers (nan) become a dash of the same width.
    return "\n".join(
        [
            *lines,
            head,
            *(re.sub(r"(?<! ) *nan%?", lambda nan: "–".rjust(len(nan[0])), row) for row in rows),
        ]
    )


def _count(value: int) -> float:
    """Return nan for what a server did not report."""
    return math.nan if value == UNKNOWN else value


def _shift(trace: Trace, value: float) -> str:
    bound = trace.config.shift_kind is ShiftKind.BOUND and not math.isnan(value)
    return f"{'≤ ' if bound else ''}{value:.2g}".rjust(9)


def _ending(baseline: Trace, trace: Trace) -> str:
    if trace.status is Status.FAILED:
        return f"[failed: {trace.error}]"
    divergence, ended = first_divergence(baseline, trace), str(trace.stop_reason)
    if trace.repeats_from is not None:
        before = f"τ before {trace.summary.tau_before_loop:.2f}"
        ended += f"; repeats from token {trace.repeats_from} on, {before}"
    if divergence is None:
        return f"[{ended}]"
    cause = str(divergence.cause)
    if divergence.cause is Cause.NUMERIC:
        cause += f", a tie of {divergence.gap:.2g}"
    rule = baseline.config.rule.name
    return f"[{ended}; first differs from {rule} at token {divergence.position}: {cause}]"


def _label(config: RunConfig) -> str:
    served = [config.target.name, config.environment[SERVER]] if config.served else []
    words = [
        config.rule.name,
        *([config.environment[ANSWER]] if ANSWER in config.environment else served),
        *(f"{name}={value_text(value)}" for name, value in config.rule.parameters.items()),
    ]
    return " ".join(filter(None, words))
