"""What a run of ``make bench`` leaves: the document that is stored as JSON, and the Markdown that follows from it alone.

Knows no models: a stored document gives the same Markdown as the run that wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from bench.measure import MEASURES, Sample, Spread

FORMAT = 2
LABELS = {"speed": "", "tau": "τ: ", "pace": "steps/s: "}  # of the measures, before the names of a ratio
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Row:
    """One method on all prompts and rounds."""

    name: str
    tokens_per_s: float  # median
    speed: Spread  # of the ratios to the table's baseline
    tau: float | None  # None where a peer does not say
    tokens: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All methods at one temperature, interleaved."""

    temperature: float
    baseline: str
    rows: tuple[Row, ...]

    @property
    def samples(self) -> dict[str, tuple[Sample, ...]]:
        return {row.name: row.samples for row in self.rows}


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio at temperature 0, and what it should be at least; None for a ratio that only explains another."""

    measure: str  # one of MEASURES
    method: str
    baseline: str
    goal: float | None
    binding: bool  # False: for information
    measured: Spread

    @property
    def reached(self) -> bool:
        return self.goal is None or self.measured.median >= self.goal


@dataclass(frozen=True, slots=True)
class Share:
    """What telemetry costs: the share of a method's wall time that it does not need with the meter off."""

    temperature: float
    method: str
    unmetered: str
    measured: Spread


@dataclass(frozen=True, slots=True)
class Equality:
    """Outputs at temperature 0 that must be equal token for token."""

    method: str
    baseline: str
    same: int
    count: int


@dataclass(frozen=True, slots=True)
class Document:
    """All that was measured in one run. ``options`` holds what decides the work: prompts, rounds, K, tokens, tree, θ."""

    format: int
    command: str
    machine: dict[str, str]
    options: dict[str, str]
    prompts: tuple[str, ...]
    tables: tuple[Table, ...]
    goals: tuple[Goal, ...]
    share_goal: float  # of the wall time, at most
    shares: tuple[Share, ...]
    equalities: tuple[Equality, ...]


class OtherFormatError(ValueError):
    """The file was written by another version of this bench, or by something else."""


def dump(document: Document) -> str:
    """As JSON, the samples one a line."""
    text = json.dumps({"sample": Sample._fields, **asdict(document)}, indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"


def read(path: Path) -> Document:
    """Raises ValueError with one sentence that names the file and what is missing."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from error
    if isinstance(data, dict) and data.get("format") != FORMAT:
        found = f"'format' is {data['format']!r}" if "format" in data else "'format' is missing"
        raise OtherFormatError(f"{path} is no result of this bench in its present format: {found}, {FORMAT} is read.")
    try:
        return _document(data)
    except KeyError as error:
        raise ValueError(f"{path} is no result of this bench: {error.args[0]!r} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is no result of this bench: a value is not what it should be ({error}).") from error


def _document(data: Mapping[str, Any]) -> Document:
    document = _value(
        Document,
        data,
        prompts=tuple(data["prompts"]),
        tables=tuple(_value(Table, table, rows=tuple(map(_row, table["rows"]))) for table in data["tables"]),
        goals=tuple(_value(Goal, goal, measured=_value(Spread, goal["measured"])) for goal in data["goals"]),
        shares=tuple(_value(Share, share, measured=_value(Spread, share["measured"])) for share in data["shares"]),
        equalities=tuple(_value(Equality, each) for each in data["equalities"]),
    )
    if unknown := {goal.measure for goal in document.goals} - set(MEASURES):
        raise ValueError(f"measure {', '.join(sorted(unknown))}")
    return document


def _row(data: Mapping[str, Any]) -> Row:
    samples = tuple(Sample(*sample) for sample in data["samples"])
    return _value(Row, data, speed=_value(Spread, data["speed"]), samples=samples)


def _value(kind: type[Value], data: Mapping[str, Any], **made: object) -> Value:
    """Raises KeyError for the first field that is missing."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: made[name] if name in made else data[name] for name in names})


def markdown(document: Document) -> str:
    """The whole report."""
    lines = [
        "# Bundled pair, side by side",
        "",
        f"- command: `{document.command}`",
        *(f"- {name}: {value}" for name, value in document.machine.items()),
        f"- EAGLE-3 trees: {document.options['tree']}; mars with θ = {document.options['theta']}",
        "- ratios: medians over prompts and rounds (quartiles); drafts are greedy where nothing else is said",
    ]
    for table in document.tables:
        lines += ["", *_table(table, document.options["k"])]
    lines += ["", *_goals(document), "", *_shares(document), "", *_equalities(document)]
    return "\n".join(lines) + "\n"


def _table(table: Table, k: str) -> list[str]:
    return [
        f"## Temperature {table.temperature:g}, K = {k}",
        "",
        f"| method | tokens/s (median) | × {table.baseline} | τ | tokens |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {row.name} | {row.tokens_per_s:.0f} | {times(row.speed)} "
            f"| {'–' if row.tau is None else f'{row.tau:.2f}'} | {row.tokens} |"
            for row in table.rows
        ),
    ]


def _goals(document: Document) -> list[str]:
    return [
        "## Goals at temperature 0",
        "",
        "| ratio | measured | goal | reached |",
        "|---|---:|---:|---|",
        *(
            f"| {LABELS[each.measure]}{each.method} / {each.baseline} | {times(each.measured)} "
            f"| {'–' if each.goal is None else f'{each.goal:.2f}×'} | {_reached(each)} |"
            for each in document.goals
        ),
    ]


def _reached(goal: Goal) -> str:
    if goal.goal is None:
        return "–"
    return ("yes" if goal.reached else "no") + ("" if goal.binding else " (information)")


def _shares(document: Document) -> list[str]:
    return [
        f"## What measuring costs (goal: at most {signed(document.share_goal)} of the wall time)",
        "",
        "| method | temperature | share of the wall time | reached |",
        "|---|---:|---:|---|",
        *(
            f"| {each.method} | {each.temperature:g} | {percent(each.measured)} "
            f"| {'yes' if each.measured.median <= document.share_goal else 'no'} |"
            for each in document.shares
        ),
    ]


def _equalities(document: Document) -> list[str]:
    return [
        "## Same tokens at temperature 0",
        "",
        *(f"- {each.method} = {each.baseline}: {each.same} of {each.count}" for each in document.equalities),
    ]


def times(spread: Spread) -> str:
    """A ratio with its quartiles."""
    return f"{spread.median:.2f}× ({spread.low:.2f}–{spread.high:.2f})"


def percent(spread: Spread) -> str:
    """A share with its quartiles, which may lie below 0."""
    return f"{signed(spread.median)} ({signed(spread.low)} to {signed(spread.high)})"


def signed(share: float) -> str:
    """In per cent, with a real minus sign, and no sign where nothing but zeros is left."""
    text = f"{100 * share:.1f}"
    return f"{'0.0' if text == '-0.0' else text.replace('-', '−')} %"
