"""``python -m bench.compare OLD.json NEW.json``: which ratios of two runs of ``make bench`` changed beyond noise.

Only ratios within one run are compared, never times: of every method to its table's baseline, of the goals, and the shares of telemetry.
Such a ratio also falls if its baseline became faster. Ratios that only explain a goal are left out.

A bootstrap over prompts: prompts are resampled with replacement, each with all its rounds (rounds of one prompt are not independent),
DRAWS times; both runs get the same prompts in a resample if they measured the same ones. A change is beyond noise if the interval of the
difference of medians excludes 0. The intervals of a comparison have simultaneous 95 % coverage (Bonferroni). They contain the noise
within the two runs only, and two processes differ by more (memory, clock): a relative change of the median by less than MIN_CHANGE
also counts as noise, except for shares. With too few prompts (12 suffice for 100 ratios) there is no result.

Exit status 1 for a regression beyond noise, 2 if a file cannot be read, else 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.common.measure import paired
from bench.common.report import Cell, Report, Table, markdown
from bench.document import GOALS, MEASURE_NAMES, METER_OFF, Document, percent, read

DRAWS = 10_000
LEVEL = 0.95  # of all intervals together
MIN_CHANGE = 0.07  # of the old median: two runs of the same work in two processes differed by up to 6.5 %

Ratios = Mapping[int, Sequence[float]]  # by prompt


class Verdict(StrEnum):
    """How a ratio changed."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NOISE = "within noise"
    UNKNOWN = "too few prompts"


class Key(NamedTuple):
    """A ratio of two methods; of a share of telemetry the baseline is the method with the meter off."""

    temperature: float
    measure: str
    method: str
    baseline: str
    share: bool

    def __str__(self) -> str:
        ratio = f"{MEASURE_NAMES[self.measure]} of {self.method} / {self.baseline}"
        return f"{f'telemetry of {self.method}' if self.share else ratio}, temperature {self.temperature:g}"


class Change(NamedTuple):
    """Medians of the ratio in both runs, and the interval of their difference."""

    key: Key
    old: float
    new: float
    low: float
    high: float
    verdict: Verdict


def ratios(document: Document) -> dict[Key, Ratios]:
    """The ratios of a document."""
    samples = {table.temperature: table.samples for table in document.tables}
    others = ((table, row.name) for table in document.tables for row in table.rows if row.name != table.baseline)
    keys = [Key(table.temperature, "speed", name, table.baseline, False) for table, name in others]
    keys += [Key(0.0, each.measure, each.method, each.baseline, False) for each in GOALS if each.least is not None]
    keys += [Key(at, "speed", name, name + METER_OFF, True) for at, found in samples.items() for name in found]
    known = (key for key in keys if samples.get(key.temperature, {}).keys() >= {key.method, key.baseline})
    return {key: paired(samples[key.temperature], key.method, key.baseline, key.measure) for key in known}


def changes(old: Mapping[Key, Ratios], new: Mapping[Key, Ratios], *, same_prompts: bool) -> list[Change]:
    """One change for every ratio in both."""
    shared = [key for key in old if key in new]
    alpha = (1 - LEVEL) / max(1, len(shared))
    return [change(key, old[key], new[key], alpha, same_prompts=same_prompts) for key in shared]


def change(key: Key, old: Ratios, new: Ratios, alpha: float, *, same_prompts: bool) -> Change:
    before, after = _grid(old), _grid(new)
    first, second = float(np.median(before)), float(np.median(after))
    draw = np.random.default_rng(0)
    places = draw.integers(len(before), size=(DRAWS, len(before)))
    others = places if same_prompts else draw.integers(len(after), size=(DRAWS, len(after)))
    low, high = np.quantile(_medians(after, others) - _medians(before, places), (alpha / 2, 1 - alpha / 2))
    if 2 * 0.5 ** min(len(before), len(after)) > alpha:  # probability that all prompts are on one side of the median
        verdict = Verdict.UNKNOWN
    elif low <= 0 <= high or abs(second - first) < (0 if key.share else MIN_CHANGE * first):
        verdict = Verdict.NOISE
    else:
        verdict = Verdict.REGRESSION if second < first else Verdict.IMPROVEMENT
    return Change(key, first, second, float(low), float(high), verdict)


def _grid(found: Ratios) -> NDArray[np.float64]:  # [prompts, rounds]
    return np.array([found[prompt] for prompt in sorted(found)], dtype=np.float64)


def _medians(grid: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Medians of every resample; ``grid``: [prompts, rounds], ``places``: [DRAWS, prompts], the result: [DRAWS]."""
    medians: NDArray[np.float64] = np.median(grid[places].reshape(len(places), -1), axis=1)
    return medians


def report(old: Document, new: Document) -> tuple[str, bool]:
    """Markdown, and whether there is a regression."""
    before, after = ratios(old), ratios(new)
    names = sorted({name for name in (*old.options, *new.options) if old.options.get(name) != new.options.get(name)})
    found = changes(before, after, same_prompts=old.prompts == new.prompts)
    facts = {name: ", ".join(each.machine.values()) for name, each in (("old", old), ("new", new))}
    facts |= {f"other {name}": f"{old.options.get(name, '–')}, {new.options.get(name, '–')}" for name in names}
    rows: list[Sequence[Cell]] = [_cells(each) for each in found]
    rows += [(str(key), *(None,) * 4, "in the old file only") for key in before if key not in after]
    rows += [(str(key), *(None,) * 4, "in the new file only") for key in after if key not in before]
    table = Table(("ratio", "old", "new", "change", "interval of the change", "result"), rows)
    text = markdown(Report("Changes between two runs", tables=[table], facts=facts))
    return text, any(each.verdict is Verdict.REGRESSION for each in found)


def _cells(found: Change) -> tuple[str, ...]:
    """Table cells; shares are 1 − ratio, with changes in percentage points."""
    difference = found.new - found.old
    if found.key.share:
        cells = [percent(1 - found.old), percent(1 - found.new)]
        cells += [f"{-100 * difference:+.1f} points", f"{-100 * found.high:+.1f} to {-100 * found.low:+.1f}"]
    else:
        cells = [f"{found.old:.2f}×", f"{found.new:.2f}×"]
        cells += [f"{difference / found.old:+.1%}", f"{found.low / found.old:+.1%} to {found.high / found.old:+.1%}"]
    return (str(found.key), *cells, found.verdict.value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    options = parser.parse_args(arguments)
    try:
        text, worse = report(read(options.old), read(options.new))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(text)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
