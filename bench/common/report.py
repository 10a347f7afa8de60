"""Reports of measurements: figures with goals, and tables, as Markdown and as JSON with the
samples."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

Cell = str | float | None  # None: unknown
WORDS = ("note", "reached", "result", "status")  # heads of columns that are not numbers
ESCAPED_BAR = r"\|"  # within a cell


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values with their quartiles."""

    median: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        middle, low, high = map(number, (self.median, self.low, self.high))
        return f"{middle} ({low}–{high})" if self.count > 1 else middle


def spread(values: Iterable[float]) -> Spread:
    sample = list(values)
    low, _, high = quantiles(sample, n=4) if len(sample) > 1 else (sample[0],) * 3
    return Spread(median(sample), low, high, len(sample))


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """One measured number, optionally with a goal. ``note``: its basis; ``samples``: the values
    whose median it is."""

    name: str
    value: float
    unit: str = ""
    note: str = ""
    least: float | None = None
    most: float | None = None
    samples: Sequence[float] = ()

    @classmethod
    def of(
        cls,
        name: str,
        values: Iterable[float],
        unit: str = "",
        least: float | None = None,
        most: float | None = None,
    ) -> MeasuredFigure:
        """The median of ``values``, with quartiles and count as note."""
        samples = tuple(values)
        middle = spread(samples)
        note = (
            f"{number(middle.low)} to {number(middle.high)}, n = {middle.count}"
            if middle.count > 1
            else ""
        )
        return cls(name, middle.median, unit, note, least, most, samples)

    @property
    def goal(self) -> str:
        return (
            f"≥ {self.least:g}"
            if self.least is not None
            else f"≤ {self.most:g}"
            if self.most is not None
            else ""
        )

    @property
    def reached(self) -> bool | None:
        """None without a goal."""
        if self.least is not None:
            return self.value >= self.least
        return None if self.most is None else self.value <= self.most


class ResultTable(NamedTuple):
    """``rows`` of as many cells as there are ``heads``; ``text``: lines below it."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    text: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BenchReport:
    """``facts``: by name; ``Command`` adds command, date and machine; ``data``: raw data, for the
    JSON file only. ``device``: on which was measured; ``failed``: what must not be was found."""

    title: str
    notes: Sequence[str] = ()
    figures: Sequence[MeasuredFigure] = ()
    tables: Sequence[ResultTable] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    device: object = "cpu"
    failed: bool = False


def figure_table(
    figures: Sequence[MeasuredFigure], title: str = "", text: Sequence[str] = ()
) -> ResultTable:
    """A table of figures, with columns for goals if there are any."""
    answers = {None: "–", True: "yes", False: "no"}
    goals = any(one.goal for one in figures)
    rows = []
    for one in figures:
        goal = [one.goal or "–", answers[one.reached]] * goals
        rows.append((one.name, f"{number(one.value)} {one.unit}".strip(), *goal, one.note))
    return ResultTable(
        ("figure", "measured", *["goal", "reached"] * goals, "note"), rows, title, text
    )


def number(value: float) -> str:
    """Integers in full, others with about three digits."""
    integral = math.isfinite(value) and value == int(value)
    return (
        f"{value:{'.0f' if integral or abs(value) >= 100 else '.2f' if abs(value) >= 1 else '.3f'}}"
    )


def markdown(report: BenchReport) -> str:
    lines = [
        f"# {report.title}",
        "",
        *(f"- {name}: {value}" for name, value in report.facts.items()),
    ]
    lines += [f"- {note}" for note in report.notes]
    for table in [figure_table(report.figures)] * bool(report.figures) + [*report.tables]:
        lines += ["", *_lines(table)]
    return "\n".join(lines) + "\n"


def _lines(table: ResultTable) -> list[str]:
    lines = [f"## {table.title}", ""] if table.title else []
    if table.rows:
        sides = ("---|" if head in WORDS else "---:|" for head in table.heads[1:])
        lines += [_row(table.heads), "|---|" + "".join(sides), *map(_row, table.rows)]
    return lines + [""] * bool(table.rows and table.text) + [*table.text]


def _row(cells: Sequence[Cell]) -> str:
    texts = (
        "–" if cell is None else cell if isinstance(cell, str) else number(cell) for cell in cells
    )
    return f"| {' | '.join(' '.join(text.replace('|', ESCAPED_BAR).split()) for text in texts)} |"


def figure_values(figures: Iterable[MeasuredFigure]) -> list[dict[str, Any]]:
    """The figures for JSON, including whether goals are reached."""
    return [asdict(one) | {"reached": one.reached} for one in figures]


def save(report: BenchReport, path: Path) -> str:
    """Writes ``path``.json and ``path``.md. Returns the latter's text."""
    data = {"machine": report.facts, "figures": figure_values(report.figures), **report.data}
    lists = json.dumps(data, indent=1, ensure_ascii=False)
    # Those of plain values on one line.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: re.sub(r"\n\s*", " ", match[0]), lists)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(report), encoding="utf-8")
    return markdown(report)
