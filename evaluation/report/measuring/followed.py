"""What followed the relaxed tokens of a study, by lane, and by properties of the tokens."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from display.format import number
from evaluation.report.measuring.grid import Grid
from evaluation.report.rows import FollowedRow
from evaluation.statistics import (
    Array,
    mean_interval,
    quartiles,
    share_interval,
)
from mars_core.counterfactual import Counterfactual
from storage import RunStore

KINDS = ("number", "word", "punctuation", "code")
NUMBERS = ("r", "gap", "entropy", "position")
LEAST = 10  # tokens of a row; smaller parts are joined
PARTS = 4  # of the values of a property, with equally many tokens of the study


class _Token(NamedTuple):
    prompt: int  # number of the item
    at: Counterfactual


def followed_rows(store: RunStore, grid: Grid) -> tuple[FollowedRow, ...]:
    """Return rows by lane and temperature: all tokens, then those of each part of the values of a
    property."""
    relaxed = {key: ids for key, ids in grid.run_ids.items() if grid.numbers["relaxed"][key] > 0}
    saved = store.counterfactuals([run_id for ids in relaxed.values() for run_id in ids])
    tokens = defaultdict[tuple[int, float], list[_Token]](list)
    for (row, lane), ids in sorted(relaxed.items(), key=lambda item: item[0][::-1]):
        of_runs = (token for run_id in ids for token in saved.get(run_id, ()))
        key = lane, float(grid.temperature[row])
        tokens[key] += [_Token(int(grid.item[row]), token) for token in of_runs]
    every = [token for some in tokens.values() for token in some]
    parts = list(_parts(every))
    return tuple(
        _row(*key, part, chosen)
        for key, some in sorted(tokens.items())
        for part, chosen in ((_Part(), some), *_joined(parts, some))
        if chosen
    )


class _Part(NamedTuple):
    """Tokens with a property from ``low`` to below ``high``; of a kind; or all. ``x``: mean."""

    by: str = ""
    text: str = ""
    x: float = math.nan
    low: float = -math.inf
    high: float = math.inf

    def has(self, token: Counterfactual) -> bool:
        if self.by == "kind":
            return token.kind == self.text
        return not self.by or self.low <= getattr(token, self.by) < self.high

    def with_(self, other: _Part, here: int, there: int) -> _Part:
        """Return the part of both; an empty one adds no text. ``here``, ``there``: their tokens."""
        if not (here and there):
            return other if there else self
        text = f"{self.text}, {other.text}"
        if self.by != "kind":
            text = f"{self.text.split(' to ')[0]} to {other.text.split(' to ')[-1]}"
        x = (self.x * here + other.x * there) / (here + there)
        return self._replace(text=text, x=x, high=other.high)


def _parts(tokens: Sequence[_Token]) -> Iterator[_Part]:
    for by in NUMBERS:
        values = sorted(v for token in tokens if math.isfinite(v := getattr(token.at, by)))
        if values:
            inner = np.quantile(values, np.linspace(0, 1, PARTS + 1)[1:-1], method="lower")
            edges = [values[0], *sorted({*inner.tolist()} - {values[0]}), math.inf]
            for low, high in pairwise(edges):
                inside = [value for value in values if low <= value < high]
                text = f"{number(inside[0])} to {number(inside[-1])}"
                yield _Part(by, text, statistics.fmean(inside), low, high)
    yield from (_Part("kind", kind, float(at)) for at, kind in enumerate(KINDS))


def _joined(
    parts: Sequence[_Part], tokens: Sequence[_Token]
) -> Iterator[tuple[_Part, list[_Token]]]:
    """Yield the tokens of each part; parts of a property with fewer than LEAST are joined with the
    next, or at its end with the one before."""
    for _, same in groupby(parts, lambda part: part.by):
        rows = list[tuple[_Part, list[_Token]]]()
        for part in same:
            inside = [token for token in tokens if part.has(token.at)]
            if rows and (len(rows[-1][1]) < LEAST or len(inside) < LEAST):
                before, some = rows.pop()
                part, inside = before.with_(part, len(some), len(inside)), some + inside
            rows.append((part, inside))
        yield from rows


def _row(lane: int, temperature: float, part: _Part, tokens: Sequence[_Token]) -> FollowedRow:
    prompt = np.array([token.prompt for token in tokens], dtype=np.intp)

    def of(read: Callable[[Counterfactual], float | None]) -> Array:
        """nan where it is not known."""
        return np.array([read(token.at) for token in tokens], dtype=np.float64)

    meets_after = of(lambda token: token.meets_after)
    return FollowedRow(
        lane=lane,
        group="",
        temperature=temperature,
        by=part.by,
        part=part.text,
        x=part.x,
        tokens=len(tokens),
        prompts=len(set(prompt.tolist())),
        changed=share_interval(of(lambda token: token.changed), prompt),
        meets=share_interval(np.isfinite(meets_after).astype(np.float64), prompt),
        meets_after=quartiles(meets_after),
        logprob=mean_interval(
            of(lambda token: token.relaxed_logprob - token.strict_logprob), prompt
        ),
    )
