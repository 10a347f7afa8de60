"""What the page's measurements say, as Markdown: goals first, then where the time goes. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.growth_report import spread
from bench.page_stream import Shown

USABLE_GOAL_S, TOKEN_GOAL_MS, STREAMING_GOAL = 5.0, 300.0, 2.0  # the last one in %


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process to the first answer, and to a button that can be pressed."""

    http_s: float
    usable_s: float


@dataclass(frozen=True, slots=True)
class Click:
    """Milliseconds from the click on Compare, in the browser's clock; a token counts after the frame that paints it."""

    answered: float
    opened: float  # the lanes wait, the warm-up begins
    token: float
    done: float


@dataclass(frozen=True, slots=True)
class Result:
    """``clicks`` and ``runs_ms`` by start; the first of each start is cold."""

    starts: tuple[Start, ...]
    clicks: tuple[tuple[Click, ...], ...]
    runs_ms: tuple[tuple[float, ...], ...]
    shown: tuple[Shown, ...]
    stages: Mapping[str, float]


def report(result: Result, facts: Mapping[str, str]) -> str:
    """Markdown: goals first, then where the time goes."""
    later = [one for clicks in result.clicks for one in clicks[1:]]
    runs = [each for of_start in result.runs_ms for each in of_start[1:]]
    lines = ["# The page", "", *(f"- {name}: {value}" for name, value in facts.items())]
    lines += [
        "- strict and mars, θ = 0.9, 128 tokens, temperature 1, K = 5, bundled pair; medians, quartiles in brackets",
        "",
    ]
    lines += ["| what | measured | goal: at most | reached |", "|---|---:|---:|---|"]
    for name, (values, goal) in _goals(result, later).items():
        said = "– | –" if goal is None else f"{goal:g} | {'yes' if median(values) <= goal else 'no'}"
        lines.append(f"| {name} | {_middle(values)}, n = {len(values)} | {said} |")
    lines += ["", "## A later comparison in the browser, ms", "", *_table(_in_browser(later, runs))]
    lines += [
        "",
        "## A comparison through the page's generator, without a browser, ms",
        "",
        *_table(_inside(result.shown)),
    ]
    lines += ["", "## A start, s", "", *_table({name: [seconds] for name, seconds in result.stages.items()})]
    return "\n".join(lines) + "\n"


def _goals(result: Result, later: Sequence[Click]) -> dict[str, tuple[list[float], float | None]]:
    share = [100 * (each.streaming / each.direct - 1) for each in result.shown]
    first = [clicks[0].token for clicks in result.clicks]
    return {
        "process start to HTTP 200, s": ([start.http_s for start in result.starts], None),
        "process start to a usable page, s": ([start.usable_s for start in result.starts], USABLE_GOAL_S),
        "click to the first token, first comparison after a start, ms": (first, None),
        "click to the first token, later ones, ms": ([one.token for one in later], TOKEN_GOAL_MS),
        "streaming over the runs' time, without a browser, %": (share, STREAMING_GOAL),
    }


def _in_browser(later: Sequence[Click], runs: Sequence[float]) -> dict[str, list[float]]:
    return {
        "click to the page's answer": [one.answered for one in later],
        "to the waiting lanes": [one.opened - one.answered for one in later],
        "to the first token: warm-ups, first frame": [one.token - one.opened for one in later],
        "to the end: both runs, saved and drawn": [one.done - one.token for one in later],
        "click to the end": [one.done for one in later],
        "both runs' own wall time, as stored": list(runs),
        "click to the end over the runs' own time, %": [
            100 * (one.done / own - 1) for one, own in zip(later, runs, strict=True)
        ],
    }


def _inside(shown: Sequence[Shown]) -> dict[str, list[float]]:
    rest = [each.streaming - each.steps - each.rows - each.ended for each in shown]
    parts = {
        "the runs alone, in one go": [each.direct for each in shown],
        "their steps, as the page asks for them": [each.steps for each in shown],
        "streaming: rows of tokens": [each.rows for each in shown],
        "streaming: a lane's whole view at its end": [each.ended for each in shown],
        "streaming: the rest (threads, views, JSON)": rest,
        "opening: finding the pair, configurations": [each.opening for each in shown],
        "warm-up": [each.warm_up for each in shown],
        "saving": [each.saving for each in shown],
        "closing: sentence, tables, figures": [each.closing for each in shown],
    }
    return {name: [1000 * seconds for seconds in values] for name, values in parts.items()}


def _table(rows: Mapping[str, Sequence[float]]) -> Iterable[str]:
    return ["| part | measured |", "|---|---:|", *(f"| {name} | {_middle(values)} |" for name, values in rows.items())]


def _middle(values: Sequence[float]) -> str:
    found = spread(values)
    return f"{found.middle:.2f} ({found.low:.2f}–{found.high:.2f})" if len(values) > 1 else f"{found.middle:.2f}"
