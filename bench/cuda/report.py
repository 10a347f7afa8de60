"""The measurement as JSON and Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.cuda.trial import Figure

LOG = 20_000  # characters of what a part said last that are kept


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one part. ``status``: done, or what went wrong; ``log``: the end of what it said."""

    name: str
    title: str
    status: str
    seconds: float
    figures: Sequence[Figure] = ()
    log: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    command: str
    tiny: bool
    machine: Mapping[str, str]
    outcomes: Sequence[Outcome]


def dump(document: Document) -> str:
    """As JSON, the goals of figures with whether they are reached."""
    parts = [
        asdict(each) | {"figures": [asdict(one) | {"reached": one.reached} for one in each.figures]}
        for each in document.outcomes
    ]
    whole = {"command": document.command, "tiny": document.tiny, "machine": document.machine, "parts": parts}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def markdown(document: Document) -> str:
    where = "a CPU: tiny shapes, no number means anything" if document.tiny else "a GPU"
    wanted = [(each.title, one) for each in document.outcomes for one in each.figures if one.goal]
    lines = [
        f"# Random models on {where}",
        "",
        f"- command: `{document.command}`",
        *(f"- {name}: {value}" for name, value in document.machine.items()),
        "- bfloat16; captured steps and exact passes, where nothing else is said; a floor is the weights' bytes over the bandwidth",
        f"- {sum(bool(one.reached) for _, one in wanted)} of {len(wanted)} goals reached",
        "",
        "| part | took, s | |",
        "|---|---:|---|",
        *(f"| {each.title} | {each.seconds:.0f} | {each.status} |" for each in document.outcomes),
        "",
        "## Goals",
        "",
        "| part | figure | measured | goal | reached |",
        "|---|---|---:|---:|---|",
        *(
            f"| {title} | {one.name} | {_number(one)} | {one.goal} | {'yes' if one.reached else 'no'} |"
            for title, one in wanted
        ),
    ]
    for each in document.outcomes:
        lines += ["", f"## {each.title}", "", *_part(each)]
    return "\n".join(lines) + "\n"


def _part(outcome: Outcome) -> list[str]:
    lines = ["| figure | measured | |", "|---|---:|---|"] if outcome.figures else ["Nothing was measured."]
    lines += [f"| {one.name} | {_number(one)} | {one.note} |" for one in outcome.figures]
    if outcome.status != "done" and outcome.log:
        lines += ["", "```", *outcome.log.replace("```", "'''").splitlines()[-30:], "```"]
    return lines


def _number(figure: Figure) -> str:
    whole = figure.value == int(figure.value) if math.isfinite(figure.value) else False
    form = ".0f" if whole or abs(figure.value) >= 100 else ".2f" if abs(figure.value) >= 1 else ".3f"
    return f"{figure.value:{form}} {figure.unit}".strip()
