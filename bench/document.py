"""The result of ``make bench`` as stored in JSON, and its Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from bench.common.measure import Sample
from bench.common.report import Report, Spread, Table, markdown

FORMAT: Literal[2] = 2
Measure = Literal["speed", "tau", "pace"]
LABELS: Mapping[str, str] = {
    "generate": "transformers `generate`",
    "assisted": "transformers assisted generation",
    "eagle3 chain": "`strict` (EAGLE-3 chain)",
    "eagle3 tree": "`strict` (EAGLE-3 tree)",
    "ngram": "`strict` (n-grams)",
    "strict, sampled": "`strict` (sampled drafts)",
}  # of the others the name itself
MEASURE_NAMES: Mapping[str, str] = {"speed": "speed", "tau": "τ", "pace": "steps a second"}


@dataclass(frozen=True, slots=True)
class Row:
    """One method on all prompts and rounds."""

    name: str
    tokens_per_s: float  # median
    speed: Spread  # of the ratios to the table's baseline
    tau: float | None  # None where the number of passes is unknown
    tokens: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Methods:
    """All methods at one temperature, interleaved."""

    temperature: float
    baseline: str
    rows: tuple[Row, ...]

    @property
    def samples(self) -> dict[str, tuple[Sample, ...]]:
        return {row.name: row.samples for row in self.rows}


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio at temperature 0, and its minimum; None for a ratio that only explains another."""

    measure: Measure
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
    """The cost of telemetry: the share of a method's wall time that is saved with the meter off."""

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
    """All measurements of one run. ``options`` determine the work: prompts, rounds, K, tokens, tree, θ."""

    format: Literal[2]
    command: str
    machine: dict[str, str]
    options: dict[str, str]
    prompts: tuple[str, ...]
    tables: tuple[Methods, ...]
    goals: tuple[Goal, ...]
    share_goal: float  # of the wall time, at most
    shares: tuple[Share, ...]
    equalities: tuple[Equality, ...]


class OtherFormatError(ValueError):
    """The file was not written by this version of the bench."""


def dump(document: Document) -> str:
    """The document as JSON, with one sample per line."""
    text = json.dumps({"sample": Sample._fields, **asdict(document)}, indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"


def read(path: Path) -> Document:
    """Raises ValueError with one sentence that names the file and what is missing."""
    try:
        return TypeAdapter(Document).validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        place, kind = ".".join(map(str, first["loc"])), OtherFormatError if first["loc"] == ("format",) else ValueError
        found = f"{place!r} is missing" if first["type"] == "missing" else f"{place!r} has a wrong value"
        raise kind(f"{path} is not a result of this bench: {found} ({first['msg']}).") from error


def text_of(document: Document) -> str:
    """The result as Markdown."""
    notes = [
        f"EAGLE-3 trees: {document.options['tree']}; mars with θ = {document.options['theta']}",
        "ratios: medians over prompts and rounds (quartiles); drafts are greedy where not stated otherwise",
    ]
    facts = {"command": f"`{document.command}`", **document.machine}
    tables = [
        Table(
            ("method", "tokens/s (median)", f"× {table.baseline}", "τ", "tokens"),
            [(row.name, f"{row.tokens_per_s:.0f}", *speed_and_tau(row), row.tokens) for row in table.rows],
            f"Temperature {table.temperature:g}, K = {document.options['k']}",
        )
        for table in document.tables
    ]
    tables.append(Table((), (), "Goals", [f"- {each}" for each in sentences(document)]))
    return markdown(Report("Bundled pair, side by side", notes, tables=tables, facts=facts))


def sentences(document: Document) -> list[str]:
    """The equalities, the goals and the shares, in one sentence each."""
    return [*equalities(document), *_goals(document.goals), telemetry_cost(document)]


def label(name: str) -> str:
    """Of a method, in Markdown."""
    return LABELS.get(name, f"`{name}`")


def equalities(document: Document) -> Iterator[str]:
    """A sentence for each baseline with the methods that must produce the same tokens."""
    for baseline, group in groupby(document.equalities, attrgetter("baseline")):
        found = ", ".join(f"{label(each.method)} {each.same} of {each.count}" for each in group)
        yield f"Outputs at temperature 0 that are those of {label(baseline)}, token for token: {found}."


def _goals(goals: Sequence[Goal]) -> Iterator[str]:
    """A sentence for each binding goal, and one for each pair of methods with informational ratios."""
    for each in goals:
        if each.binding and each.goal is not None:
            what = f"{MEASURE_NAMES[each.measure]} of {label(each.method)} over {label(each.baseline)}"
            reached = "reached" if each.reached else "not reached"
            yield f"At temperature 0, {what}: {times(each.measured)}; the goal of {each.goal:.2f}× is {reached}."
    information = [each for each in goals if not each.binding]
    for (method, baseline), group in groupby(information, attrgetter("method", "baseline")):
        found = ", ".join(f"{MEASURE_NAMES[each.measure]} {times(each.measured)}" for each in group)
        yield f"At temperature 0, {label(method)} over {label(baseline)}, for information: {found}."


def telemetry_cost(document: Document) -> str:
    medians, goal = [share.measured.median for share in document.shares], document.share_goal
    return (
        "What is measured of every token (p, q, margins, alternatives, TV, KL, log-likelihood) costs, by rule, drafter and temperature,"
        f" {signed(min(medians))} to {signed(max(medians))} of the wall time; the goal of at most {signed(goal)}"
        f" is {'reached' if max(medians) <= goal else 'not reached'}."
    )


def speed_and_tau(row: Row) -> tuple[str, str]:
    return times(row.speed), "–" if row.tau is None else f"{row.tau:.2f}"


def times(spread: Spread) -> str:
    """A ratio with its quartiles."""
    return f"{spread.median:.2f}× ({spread.low:.2f}–{spread.high:.2f})"


def signed(share: float) -> str:
    """A percentage with a minus sign (U+2212), without a sign for zero."""
    text = f"{100 * share:.1f}"
    return f"{'0.0' if text == '-0.0' else text.replace('-', '−')} %"
