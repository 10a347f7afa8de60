"""What followed the relaxed tokens of a study, by lane, and by properties of the tokens."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
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
LEAST = 10  # tokens of a row with a property
PARTS = 4  # of the values of a property at most


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
    return tuple(
        _row(*key, part, chosen)
        for key, some in sorted(tokens.items())
        for part, chosen in ((_Part(), some), *_parts(some))
        if chosen
    )


class _Part(NamedTuple):
    """Tokens with similar values of a property; all of them without one. ``x``: mean of the values;
    nan of a kind."""

    by: str = ""
    text: str = ""
    x: float = math.nan


def _parts(tokens: Sequence[_Token]) -> Iterator[tuple[_Part, list[_Token]]]:
    """Yield up to PARTS equally many tokens of every property, by its values, and those of a kind;
    parts of fewer than LEAST tokens are left out."""
    for by in NUMBERS:
        value = attrgetter(f"at.{by}")
        known = sorted((each for each in tokens if math.isfinite(value(each))), key=value)
        parts = min(PARTS, len(known) // LEAST)
        for part in range(parts):
            some = known[len(known) * part // parts : len(known) * (part + 1) // parts]
            values = list(map(value, some))
            text = f"{number(values[0])} to {number(values[-1])}"
            yield _Part(by, text, statistics.fmean(values)), some
    for kind in KINDS:
        some = [token for token in tokens if token.at.kind == kind]
        if len(some) >= LEAST:
            yield _Part("kind", kind), some


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
