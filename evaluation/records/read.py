"""Runs of served models from what other programs write: the lines of mars-vllm, answers of vLLM,
SGLang and llama.cpp in one piece or as captured streams, AIPerf's records, and ``/metrics``.

What a format does not report is UNKNOWN or nan in the run, and is named in its comment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from display.format import shorten
from evaluation.records.aiperf import read_aiperf
from evaluation.records.formats import choices_of, read_answer, read_llama, read_sglang
from evaluation.records.lines import read_line
from evaluation.records.streams import is_stream, streamed_answers
from evaluation.records.values import NAN, config_of
from evaluation.served.answer import Broken
from evaluation.served.counters import read_counters
from evaluation.served.trace import served_trace
from mars_core.text.files import read_json, read_text
from mars_core.types import SERVER, UNKNOWN, StopReason, Trace
from storage.importing import ImportedRun

MAX_BYTES = 256 * 2**20
_FORMATS = {
    "format": read_line,
    "timings": read_llama,
    "meta_info": read_sglang,
    "choices": read_answer,
    "metadata": read_aiperf,
}


def read_records(path: Path) -> list[ImportedRun]:
    """Read all runs of a file. Raises ValueError, with the line or entry, if anything in it cannot
    be read."""
    return records_of(read_text(path, MAX_BYTES), f"{path}", path.name)


def records_of(text: str, title: str, name: str) -> list[ImportedRun]:
    """Read all runs of a text. ``title``: what a sentence on it begins with; ``name``: of the
    comments of its runs. Raises ValueError as ``read_records``."""
    where = ""
    try:
        streams = is_stream(text)
        if not streams and not text.lstrip().startswith(("{", "[")):
            return [_of_counters(text, name)]
        records = []
        for position, row in streamed_answers(text) if streams else _rows(text):
            where = position
            records += _records(read_json(row) if isinstance(row, str) else row, name)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        Broken,
    ) as error:
        reason = {
            KeyError: f"it has no field {error}",
            ValueError: str(error),
            Broken: f"the server {error}",
        }
        why = next(
            (text for kind, text in reason.items() if isinstance(error, kind)),
            "a field has another type",
        )
        position = f"{title}, {where}," if where else title
        raise ValueError(f"{position} cannot be read: {shorten(why, 200).rstrip('.')}.") from None
    return records


def _rows(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a JSON value, or the lines of a file with one value per line, each with
    its name."""
    try:
        document = read_json(text)
    except json.JSONDecodeError:
        yield from (
            (f"line {number}", line)
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        )
    else:
        rows = document if isinstance(document, list) else [document]
        yield from ((f"entry {number}", row) for number, row in enumerate(rows, 1))


def _records(row: Any, file: str) -> list[ImportedRun]:
    """Return the runs of an answer, one for each choice."""
    if not isinstance(row, dict) or not _FORMATS.keys() & row:
        raise ValueError("it is not a record of mars-vllm, vLLM, SGLang, llama.cpp or AIPerf")
    records = []
    for choice, which in choices_of(row):
        read = next(read for sign, read in _FORMATS.items() if sign in choice)
        trace, created, source = read(choice)
        comment = _comment(trace, file, source + which)
        records.append(ImportedRun(json.dumps(choice, sort_keys=True), trace, created, comment))
    return records


def _of_counters(text: str, file: str) -> ImportedRun:
    """Return ``/metrics`` as one run: all answers of the server together."""
    counters = read_counters(text)
    config = config_of(
        counters.model,
        counters.server,
        k=round(counters.drafted / counters.drafts) if counters.drafts > 0 else 0,
    )
    new, prompt, drafts, drafted, accepted, relaxed = (
        UNKNOWN if math.isnan(value) else int(value)
        for name in ("new_tokens", "prompt_tokens", "drafts", "drafted", "accepted", "relaxed")
        for value in (getattr(counters, name),)
    )
    end = StopReason.UNKNOWN
    trace = served_trace(
        config, text="", tokens=(), stop_reason=end, new_tokens=new, prompt_tokens=prompt
    )
    summary = replace(trace.summary, tau=counters.tau, acceptance_rate=counters.acceptance_rate)
    tau = "SGLang's gauge of its latest passes, accepted tokens + 1"
    if drafts > 0:
        tau = "1 + accepted tokens / drafts, without first tokens"
        rates = tuple(count / drafts for count in counters.accepted_at)
        summary = replace(
            summary,
            drafted=drafted,
            rejected=drafted - accepted,
            tau=1 + accepted / drafts,
            relaxed=relaxed,
            acceptance_rate=accepted / drafted if drafted else NAN,
            acceptance_by_position=rates,
            accepted=UNKNOWN if relaxed == UNKNOWN else accepted - relaxed,
        )
    trace = replace(trace, summary=summary)
    source = f"/metrics of {counters.server}, all answers of the server together; τ is {tau}"
    return ImportedRun(text, trace, None, _comment(trace, file, source))


def _comment(trace: Trace, file: str, source: str) -> str:
    """Return where a run came from, and what is not known of it."""
    summary, config = trace.summary, trace.config
    known = {
        "prompt": bool(config.prompt.text),
        "text": bool(trace.text),
        "token ids": any(token.id != UNKNOWN for token in trace.tokens),
        "rule": config.rule.name != SERVER,
        "drafter": config.drafter.kind != SERVER,
        "sampling": not math.isnan(config.sampling.temperature),
        "steps": summary.steps != UNKNOWN,
        "acceptance by position": bool(summary.acceptance_by_position),
        "margins": any(not math.isnan(token.z1) for token in trace.tokens),
        "relaxed tokens": summary.relaxed != UNKNOWN,
        "times": not math.isnan(summary.wall_s),
    }
    unknown = ", ".join(name for name, reported in known.items() if not reported)
    return f"Imported from {shorten(file, 80)}: {source}. Not known: {unknown}."
