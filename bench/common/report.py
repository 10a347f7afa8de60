"""Reports of measurements: figures with goals, and tables, as Markdown and as JSON with the
samples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from types import MappingProxyType
from typing import Any, NamedTuple

Cell = str | float | None  # None: unknown
WORDS = ("note", "reached", "result", "status")  # heads of columns that are not numbers
ESCAPED_BAR = r"\|"  # within a cell


class Spread(NamedTuple):
    """The median of some values with their quartiles."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        low, middle, high = map(number, self)
        return f"{middle} ({low}–{high})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(*(quantiles(values, n=4) if len(values) > 1 else 3 * [values[0]]))


class MeasuredFigure(NamedTuple):
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
        cls, name: str, values: Iterable[float], unit: str = "", **goal: float
    ) -> MeasuredFigure:
        """Return the median of ``values``, with quartiles and count as note. ``goal``: ``least`` or
        ``most``."""
        samples = tuple(values)
        low, middle, high = spread(samples)
        count = len(samples)
        note = f"{number(low)} to {number(high)}, n = {count}" if count > 1 else ""
        return cls(name, middle, unit, note, samples=samples, **goal)

    @property
    def goal(self) -> str:
        if self.least is not None:
            return f"≥ {self.least:g}"
        return "" if self.most is None else f"≤ {self.most:g}"

    @property
    def reached(self) -> bool | None:
        """None without a goal."""
        if self.least is not None:
            return self.value >= self.least
        return None if self.most is None else self.value <= self.most


Figures = Iterator[MeasuredFigure]


class ResultTable(NamedTuple):
    """``rows`` of as many cells as there are ``heads``; ``text``: lines below it."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    text: Sequence[str] = ()


class BenchReport(NamedTuple):
    """``facts``: by name; ``measurement`` adds command, date and machine; ``data``: raw data, for
    the JSON file only. ``device``: on which was measured; ``failed``: what must not be was found;
    ``name``: of the files, by default the module's."""

    title: str
    notes: Sequence[str] = ()
    figures: Sequence[MeasuredFigure] = ()
    tables: Sequence[ResultTable] = ()
    data: Mapping[str, Any] = MappingProxyType({})
    facts: Mapping[str, str] = MappingProxyType({})
    device: object = "cpu"
    failed: bool = False
    name: str = ""


def figure_table(
    figures: Sequence[MeasuredFigure], title: str = "", text: Sequence[str] = ()
) -> ResultTable:
    """Return a table of figures, with columns for goals if there are any."""
    answers = {None: "–", True: "yes", False: "no"}
    goals = any(one.goal for one in figures)
    heads = ("figure", "measured", *["goal", "reached"] * goals, "note")
    rows = []
    for one in figures:
        goal = [one.goal or "–", answers[one.reached]] * goals
        rows.append((one.name, f"{number(one.value)} {one.unit}".strip(), *goal, one.note))
    return ResultTable(heads, rows, title, text)


def number(value: float) -> str:
    """Integers in full, others with about three digits."""
    if value % 1 == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def markdown(report: BenchReport) -> str:
    notes = [*(f"{name}: {value}" for name, value in report.facts.items()), *report.notes]
    lines = [f"# {report.title}", "", *(f"- {note}" for note in notes)]
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
    """Return the figures for JSON, including whether goals are reached."""
    return [one._asdict() | {"reached": one.reached} for one in figures]


def save(report: BenchReport, path: Path) -> str:
    """Writes ``path``.json and ``path``.md. Returns the latter's text."""
    data = {"machine": report.facts, "figures": figure_values(report.figures), **report.data}
    lists, text = json.dumps(data, indent=1, ensure_ascii=False), markdown(report)
    # Those of plain values on one line.
    lists = re.sub(r"\[[^\[\]{}]*\]", lambda match: re.sub(r"\n\s*", " ", match[0]), lists)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(lists + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text
