"""What captures, exact passes and the meter bring or cost: the same runs with and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bench.common.decoding import Ours
from bench.common.measure import interleaved, median_speed, ratio
from bench.common.report import Figure, Spread
from bench.coupled import prompts
from bench.cuda.trial import Trial, switched

GRAPHS_GOAL = 1.5  # times the eager speed, at least
METER_GOAL = 3.0  # per cent of the time, at most
COMPARED = ("none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree")


def graphs(trial: Trial) -> Iterator[Figure]:
    """First what the captures take: a first run less a second one."""
    eager, captured = (switched(trial.pair("qwen"), graphs=on) for on in (False, True))
    for name in COMPARED:
        first, second = (_seconds(trial.ours(captured, name)) for _ in range(2))
        yield Figure(f"captures, {name}", first - second, "s", f"first run {first:.2f} s, second {second:.2f} s")
    for name, found, speeds in _beside(
        trial, lambda name: trial.ours(captured, name), lambda name: trial.ours(eager, name)
    ):
        yield Figure(f"graphs / eager, {name}", found.median, "×", speeds, least=GRAPHS_GOAL)


def exactness(trial: Trial) -> Iterator[Figure]:
    exact, free = (switched(trial.pair("qwen"), exact=on) for on in (True, False))
    for name, found, speeds in _beside(
        trial, lambda name: trial.ours(exact, name), lambda name: trial.ours(free, name)
    ):
        yield Figure(f"exact / free passes, {name}", found.median, "×", speeds)


def meter(trial: Trial) -> Iterator[Figure]:
    pair = trial.pair("qwen")
    for name, found, speeds in _beside(
        trial, lambda name: trial.ours(pair, name), lambda name: trial.ours(pair, name, meter=False)
    ):
        yield Figure(f"meter, {name}", 100 * (1 - found.median), "% of the time", speeds, most=METER_GOAL)


def _beside(
    trial: Trial, method: Callable[[str], Ours], baseline: Callable[[str], Ours]
) -> Iterator[tuple[str, Spread, str]]:
    """Of every drafter its name, the ratio of speeds, and the speeds in words."""
    for at, name in enumerate(COMPARED):
        both = {"with": method(name), "without": baseline(name)}
        until = trial.share(1 / (len(COMPARED) - at))
        samples = interleaved(both, prompts(trial.prompts), trial.rounds, warm_up=1, until=until)
        first, second = (median_speed(own) for own in samples.values())
        yield name, ratio(samples, "with", "without"), f"{first:.0f} and {second:.0f} tokens/s"


def _seconds(method: Ours) -> float:
    started = time.perf_counter()
    method(prompts(1)[0], 0)
    return time.perf_counter() - started
