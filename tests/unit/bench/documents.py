"""Hand-made results of the bench, small enough to be counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.common.measure import Sample
from bench.common.report import save
from bench.document import FORMAT, Document, Methods, Row, report

MACHINE = {"date": "2026-01-02 03:04 UTC", "commit": "abc", "hardware": "A CPU", "versions": "python 3"}
OPTIONS = {"prompts": "2", "rounds": "2", "k": "5", "max_new_tokens": "24", "tree": "24 nodes", "theta": "0.9"}


def sample(prompt: int, turn: int, seconds: float, *, tokens: int = 12, steps: int = 4, digest: str = "a") -> Sample:
    return Sample(prompt, turn, seconds, tokens, steps, digest)


def row(name: str, seconds: Sequence[Sequence[float]], steps: int = 4, digest: str = "a") -> Row:
    """``seconds``: by prompt and round."""
    places = ((p, r, value) for p, each in enumerate(seconds) for r, value in enumerate(each))
    return Row(name, tuple(sample(p, r, value, steps=steps, digest=digest) for p, r, value in places))


def timed(seconds: Mapping[str, Sequence[Sequence[float]]]) -> Document:
    """One table at temperature 0 from the seconds of every method, by prompt and round; the first method is the baseline."""
    rows = tuple(row(name, own) for name, own in seconds.items())
    prompts = tuple(map(str, range(len(next(iter(seconds.values()))))))
    return Document(FORMAT, MACHINE, OPTIONS, prompts, (Methods(0.0, rows[0].name, rows),))


def stored(odd: str = "") -> Document:
    """Two prompts, the second at half the speed or nearly so; the method ``odd`` writes another text."""
    own = {"strict": 1.0, "eagle3 chain": 1.0, "eagle3 tree": 0.8, "ngram": 2.0}
    seconds = {"generate": 4.0, "none": 3.2, "assisted": 2.0, **own}
    passes = {"generate": 0, "assisted": 0, "none": 12, "eagle3 tree": 3}
    rows = [
        row(name, [[value], [2 * value]], passes.get(name, 6), "other" if name == odd else "same")
        for name, value in seconds.items()
    ]
    off = row("strict, meter off", [[0.96], [1.84]], 6)  # 4 % and 8 % less than with the meter
    sampled = Methods(1.0, "none", (row("none", [[3.0], [6.0]], 12), row("mars", [[1.5], [3.0]])))
    return Document(FORMAT, MACHINE, OPTIONS, ("one", "two [2]"), (Methods(0.0, "generate", (*rows, off)), sampled))


def write(path: Path, document: Document) -> Path:
    """``path``: of the JSON file."""
    save(report(document), path.with_suffix(""))
    return path
