"""The result of ``make bench``: the samples of every method as stored in JSON, and the goals and Markdown computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from bench.common.measure import Sample, median_speed, overall_tau, paired, ratio, same_outputs
from bench.common.report import Figure, Report, Spread, Table

FORMAT: Literal[2] = 2
MEASURE_NAMES: Mapping[str, str] = {"speed": "speed", "tau": "τ", "pace": "steps a second"}
SHARE_GOAL = 0.03  # of the wall time, for the telemetry of every token
METER_OFF = ", meter off"  # the end of the name of a method without telemetry


class Goal(NamedTuple):
    """A ratio at temperature 0 and its minimum; None for a ratio that only explains another."""

    measure: str
    method: str
    baseline: str
    least: float | None


GOALS = (
    Goal("speed", "none", "generate", 1.15),
    Goal("speed", "strict", "assisted", 1.6),
    Goal("speed", "strict", "none", 2.0),
    Goal("tau", "eagle3 tree", "strict", 1.25),
    Goal("speed", "eagle3 tree", "eagle3 chain", 1.0),
    Goal("tau", "eagle3 tree", "eagle3 chain", None),
    Goal("pace", "eagle3 tree", "eagle3 chain", None),
)
EQUAL = (
    ("none", "generate"), ("assisted", "generate"),
    ("strict", "none"), ("eagle3 chain", "none"), ("eagle3 tree", "none"), ("ngram", "none"),
)  # must produce the same tokens at temperature 0  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One method on all prompts and rounds."""

    name: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Methods:
    """All methods at one temperature, interleaved; ratios are over ``baseline``."""

    temperature: float
    baseline: str
    rows: tuple[Row, ...]

    @property
    def samples(self) -> dict[str, tuple[Sample, ...]]:
        return {row.name: row.samples for row in self.rows}

    @property
    def shares(self) -> dict[str, Spread]:
        """The cost of telemetry by method: the share of its wall time that is saved with the meter off."""
        found = self.samples
        own = {name: ratio(found, name, name + METER_OFF) for name in found if name + METER_OFF in found}
        return {name: Spread(1 - one.median, 1 - one.high, 1 - one.low, one.count) for name, one in own.items()}

    def speed_and_tau(self, row: Row) -> tuple[str, str]:
        """The ratio of speeds with its quartiles, and τ; a dash where the number of passes is unknown."""
        found, tau = ratio(self.samples, row.name, self.baseline), overall_tau(row.samples)
        return f"{found.median:.2f}× ({found.low:.2f}–{found.high:.2f})", "–" if tau is None else f"{tau:.2f}"


@dataclass(frozen=True, slots=True)
class Document:
    """All measurements of one run. ``options`` determine the work: prompts, rounds, K, tokens, tree, θ."""

    format: Literal[2]
    machine: dict[str, str]
    options: dict[str, str]
    prompts: tuple[str, ...]
    tables: tuple[Methods, ...]

    @property
    def equalities(self) -> dict[tuple[str, str], tuple[int, int]]:
        """By method and baseline: number of equal outputs at temperature 0, and number of outputs."""
        found = self.tables[0].samples
        return {pair: same_outputs(found, *pair) for pair in EQUAL if found.keys() >= {*pair}}


class OtherFormatError(ValueError):
    """The file was not written by this version of the bench."""


def read(path: Path) -> Document:
    """Raises ValueError with one sentence that names the file and what is missing."""
    try:
        found = TypeAdapter(Document).validate_json(path.read_bytes())
        for table in found.tables:
            for row in table.rows:
                paired(table.samples, row.name, table.baseline)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        place, kind = ".".join(map(str, first["loc"])), OtherFormatError if first["loc"] == ("format",) else ValueError
        why = f"{place!r} is missing" if first["type"] == "missing" else f"{place!r} has a wrong value"
        raise kind(f"{path} is not a result of this bench: {why} ({first['msg']}).") from error
    except ValueError as error:
        raise ValueError(f"{path} is not a result of this bench: {error} are missing.") from error
    return found


def figures(document: Document) -> Iterator[Figure]:
    """The goals, what telemetry costs, and the outputs that must be equal."""
    greedy = document.tables[0]
    for measure, method, baseline, least in GOALS:
        if greedy.samples.keys() >= {method, baseline}:
            found = ratio(greedy.samples, method, baseline, measure)
            name = f"{MEASURE_NAMES[measure]} of {method} / {baseline}, temperature 0"
            yield Figure(name, found.median, "×", f"{found.low:.2f} to {found.high:.2f}, n = {found.count}", least)
    for table in document.tables:
        for method, share in table.shares.items():
            note = f"{percent(share.low)} to {percent(share.high)}"
            name = f"telemetry of {method}, temperature {table.temperature:g}"
            yield Figure(name, 100 * share.median, "%", note, most=100 * SHARE_GOAL)
    for (method, baseline), (same, count) in document.equalities.items():
        yield Figure(f"outputs of {method} that are not those of {baseline}", count - same, "", f"of {count}", most=0)


def report(document: Document) -> Report:
    options = document.options
    notes = [
        f"EAGLE-3 trees: {options['tree']}; mars with θ = {options['theta']}",
        "ratios: medians over prompts and rounds (quartiles); drafts are greedy where not stated otherwise",
    ]
    tables = []
    for table in document.tables:
        heads = ("method", "tokens/s (median)", f"× {table.baseline}", "τ", "tokens")
        own = [
            (f"{median_speed(row.samples):.0f}", *table.speed_and_tau(row), sum(s.tokens for s in row.samples))
            for row in table.rows
        ]
        rows = [(row.name, *cells) for row, cells in zip(table.rows, own, strict=True)]
        tables.append(Table(heads, rows, f"Temperature {table.temperature:g}, K = {options['k']}"))
    data = {"sample": Sample._fields, **asdict(document)}
    del data["machine"]
    return Report("Bundled pair, side by side", notes, list(figures(document)), tables, data, document.machine)


def percent(share: float) -> str:
    """A percentage with a minus sign (U+2212), without a sign for zero."""
    text = f"{100 * share:.1f}"
    return f"{'0.0' if text == '-0.0' else text.replace('-', '−')} %"
