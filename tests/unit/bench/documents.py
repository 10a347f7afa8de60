"""Hand-made results of the bench, small enough to be counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.common.measure import Sample
from bench.common.report import Spread, spread
from bench.document import FORMAT, Document, Equality, Goal, Methods, Row, Share


def sample(prompt: int, turn: int, seconds: float, *, tokens: int = 12, steps: int = 4, digest: str = "a") -> Sample:
    return Sample(prompt, turn, seconds, tokens, steps, digest)


def row(name: str, speed: Spread, tau: float | None, samples: Sequence[Sample] = ()) -> Row:
    return Row(name, 123.4, speed, tau, 48, tuple(samples))


def stored() -> Document:
    """One whose numbers are given, not counted from samples."""
    return Document(
        format=FORMAT,
        command="python -m bench",
        machine={"date": "2026-01-02 03:04 UTC", "commit": "abc", "hardware": "A CPU", "versions": "python 3"},
        options={"prompts": "2", "rounds": "2", "k": "5", "max_new_tokens": "24", "tree": "24 nodes", "theta": "0.9"},
        prompts=("one", "two [2]"),
        tables=_tables(),
        goals=(
            Goal("speed", "strict", "generate", 2.0, True, Spread(2.125, 1.5, 2.5, 4)),
            Goal("tau", "strict", "none", 5.0, True, Spread(4.5, 4.25, 4.75, 4)),
            Goal("speed", "eagle3 tree", "eagle3 chain", 1.0, False, Spread(0.75, 0.5, 1.25, 4)),
            Goal("pace", "eagle3 tree", "eagle3 chain", None, False, Spread(0.625, 0.5, 0.75, 4)),
        ),
        share_goal=0.03,
        shares=(
            Share(0.0, "strict", "strict, meter off", Spread(0.025, -0.0125, 0.04, 4)),
            Share(1.0, "strict", "strict, meter off", Spread(0.0425, 0.0, 0.05, 4)),
        ),
        equalities=(Equality("strict", "generate", 3, 4),),
    )


def _tables() -> tuple[Methods, ...]:
    greedy = Methods(
        0.0,
        "generate",
        (
            row("generate", Spread(1, 1, 1, 4), None),
            row("strict", Spread(2.125, 1.5, 2.5, 4), 4.5),
            row("strict, meter off", Spread(2.25, 1.75, 2.75, 4), 4.5),
        ),
    )
    sampled = Methods(1.0, "none", (row("none", Spread(1, 1, 1, 4), 1.0),))
    return greedy, sampled


def timed(seconds: Mapping[str, Sequence[Sequence[float]]]) -> Document:
    """One table at temperature 0 from the seconds of every method, by prompt and round; the first method is the baseline.

    Goals and shares are those of which it has both methods.
    """
    rows = tuple(
        row(
            name,
            spread([1.0]),
            3.0,
            [sample(p, r, value) for p, each in enumerate(own) for r, value in enumerate(each)],
        )
        for name, own in seconds.items()
    )
    one = Spread(1, 1, 1, 1)
    shares = [Share(0.0, name, f"{name}, meter off", one) for name in seconds if f"{name}, meter off" in seconds]
    table = Methods(0.0, next(iter(seconds)), rows)
    prompts = tuple(map(str, range(len(next(iter(seconds.values()))))))
    return replace(stored(), prompts=prompts, tables=(table,), goals=(), shares=tuple(shares))
