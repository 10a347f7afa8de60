"""Runs of served models from what other programs write: the lines of mars-vllm, answers of vLLM,
SGLang and llama.cpp in one piece or as captured streams, and AIPerf's records.

What a format does not report is UNKNOWN or nan in the run, and is named in its comment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from display.format import shorten
from evaluation.records.aiperf import read_aiperf
from evaluation.records.formats import choices_of, read_answer
from evaluation.records.lines import read_line
from evaluation.records.streams import is_stream, streamed_answers
from evaluation.served.answer import Broken
from mars_core.text.files import read_json, read_text
from mars_core.types import SERVER, UNKNOWN, Trace
from storage.importing import ImportedRun

MAX_BYTES = 256 * 2**20
_FORMATS = {
    "format": read_line,
    **dict.fromkeys(("timings", "meta_info", "choices"), read_answer),
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
        records = []
        for position, row in streamed_answers(text) if is_stream(text) else _rows(text):
            where = position
            records += _records(read_json(row) if isinstance(row, str) else row, name)
        if not records:
            raise ValueError("it has no record")
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
        records.append(ImportedRun(_content(choice), trace, created, comment))
    return records


def _content(row: Mapping[str, Any]) -> str:
    """Return an answer as the server wrote it, by which its run is known at a later import: without
    what ``streamed_answers`` adds."""
    wrote = dict(row)
    if choices := row.get("choices"):
        wrote["choices"] = [
            {name: each for name, each in choice.items() if name != "parts"} for choice in choices
        ]
    if "content" in row:  # llama.cpp's own endpoint has no choices
        wrote.pop("choices", None)
    return json.dumps(wrote, sort_keys=True)


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
