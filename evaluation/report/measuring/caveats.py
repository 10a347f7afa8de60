"""Caveats of a report, one sentence each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from display.format import first_few, plural
from evaluation.plan.plan import Plan
from evaluation.recovery import LEAST_PROMPTS, RecoveryOutcome
from evaluation.report.measured import Measured
from evaluation.report.measuring.grid import Grid, Mask
from evaluation.statistics import Array
from evaluation.suites.typed import TYPED
from mars_core.types import Cause, DraftMode

MANY_UNENDED = 0.1
ALPHA = 0.05
# Keys of the environment that must be equal for numbers to be comparable.
ONE_VALUE = ("device", "dtype", "threads", "torch", "transformers", "app")


def warnings(
    grid: Grid, measured: Sequence[Measured], environment: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    plan = grid.plan
    suites = [
        row
        for row in measured
        if row.group in plan.suite_names and not plan.lanes[row.lane].is_control
    ]
    yield from _failed(grid)
    yield from _longer(plan, suites)
    if not plan.advice:
        yield from _many_tests(plan, suites)
    yield from _few_or_unscored(suites)
    yield from _unended(plan, suites)
    yield from _rounding(grid)
    yield from _environment(environment)
    yield from _served(grid)
    yield from _batches(grid)
    if plan.advice:
        yield "The settings ran one after the other, so that speed-ups include what the machine did in between; τ does not."
    if plan.none is None:
        yield "The plan has no lane none, so the speed-up over decoding without drafts is not reported."


def _names(plan: Plan, lanes: Mask | np.bool) -> list[str]:
    """``lanes``: [L]."""
    return [plan.title(plan.lanes[lane]) for lane in np.flatnonzero(lanes)]


def _failed(grid: Grid) -> Iterator[str]:
    if grid.failed.any():
        lanes = ", ".join(_names(grid.plan, grid.failed.any(axis=0)))
        yield f"{plural(int(grid.failed.sum()), 'run')} did not complete ({lanes}); their tasks are left out of comparisons of these."


def _longer(plan: Plan, rows: Sequence[Measured]) -> Iterator[str]:
    both = [row for row in rows if row.tau_ratio.low > 1 and row.length_ratio.low > 1]
    both.sort(key=lambda row: -row.length_ratio.value)
    named = [
        f"{row.setting(plan)} (τ × {row.tau_ratio.value:.3g}, length × "
        f"{row.length_ratio.value:.4g}, at least {row.length_ratio.low:.4g})"
        for row in both
    ]
    if both:
        yield (
            f"In {plural(len(both), 'setting')} a rule keeps more of each draft and also writes longer "
            f"texts, so tokens/s overstates the time saved: {first_few(named)}."
        )


def _many_tests(plan: Plan, rows: Sequence[Measured]) -> Iterator[str]:
    scores = [(row, score) for row in rows for score in list(row.scores.values())[:1]]
    tested = [
        (row, test)
        for row, score in scores
        if (test := score.mcnemar) and not math.isnan(test.p_holm)
    ]
    if len(tested) > 1:
        plain = sum(test.p_by_prompt < ALPHA for _, test in tested)
        left = [row.setting(plan) for row, test in tested if test.p_holm < ALPHA]
        names = f": {first_few(left)}" if left else ""
        yield (
            f"{len(tested)} comparisons with strict were tested; by chance alone about "
            f"{ALPHA * len(tested):.2g} of them would have p < {ALPHA:g}. {plain} have it, and "
            f"after Holm's correction {len(left)}{names}."
        )
    outcomes = [score.verdict for _, score in scores if score.verdict]
    supported = outcomes.count(RecoveryOutcome.SUPPORTED)
    if len(outcomes) > 1 and supported:
        yield (
            f"{len(outcomes)} verdicts were reached and {supported} say supported; each of these "
            "is wrong with probability 2.5 % at most where the true recovery is the margin, so "
            "confirm the best of many with a new study."
        )


def _few_or_unscored(rows: Sequence[Measured]) -> Iterator[str]:
    for group in dict.fromkeys(row.group for row in rows if row.runs):
        if not any(row.scores for row in rows if row.group == group):
            yield f"Nothing on {_named(group)} could be scored, so there is no verdict on it; similarity to strict is not quality."
    few = {row.group: row.prompts for row in rows if 0 < row.prompts < LEAST_PROMPTS}
    for group, prompts in few.items():
        yield (
            f"There is no verdict on {_named(group)}, of {plural(prompts, 'prompt')}: below "
            f"{LEAST_PROMPTS}, bootstrap intervals are too narrow and rare losses are missed."
        )


def _named(group: str) -> str:
    return "your suite" if group == TYPED else group


def _unended(plan: Plan, rows: Sequence[Measured]) -> Iterator[str]:
    cut = [row for row in rows if row.unended.value > MANY_UNENDED]
    if cut:
        worst = max(cut, key=lambda row: row.unended.value)
        share = f"{100 * worst.unended.value:.0f} % of the texts of {worst.setting(plan)}"
        yield (
            f"max_new_tokens {plan.max_new_tokens} cut {share} and more than "
            f"{100 * MANY_UNENDED:.0f} % in {plural(len(cut), 'setting')}; their scores and lengths are "
            "those of unfinished texts."
        )


def _rounding(grid: Grid) -> Iterator[str]:
    """Strict must produce the same text as the target alone, unless its drafts are sampled."""
    for lane, settings in enumerate(grid.plan.lanes):
        same = grid.numbers["same_as_none"][:, lane]
        differ, known = int((same == 0).sum()), int(np.isfinite(same).sum())
        if (
            differ
            and grid.plan.baseline(lane) is None
            and settings.drafter.mode is not DraftMode.SAMPLED
        ):
            yield (
                f"{grid.plan.title(settings)} differs from none in {differ:,} of {known:,} runs "
                "though both must produce the same tokens: rounding differs between passes of "
                "different shapes and affects recovery over strict."
            )
    if ties := grid.causes.count(Cause.NUMERIC):
        yield f"{ties:,} of {len(grid.causes):,} texts that differ from their baseline do so at a numeric tie: by rounding, not the rule."


def _served(grid: Grid) -> Iterator[str]:
    """Yield the caveats of a study on servers."""
    if not grid.plan.served:
        return
    yield "The runs are those of a server: their times include the network, and requests of others change them."
    if grid.plan.served.baseline_url:
        yield "The lane strict ran on another server, so differences in speed and text are not due to the rule alone."
    if any(grid.plan.temperatures):
        yield (
            "At temperatures above 0 a pair of runs shares its seed only as far as the server "
            "honours it: batches and speculation can change what a seed gives, so differences "
            "between texts are not due to the rule alone."
        )
    unknown = np.isnan(grid.numbers["steps"][grid.completed.all(axis=1)]).any(axis=0)
    for name in _names(grid.plan, unknown):
        yield f"The server did not report the steps of {name}; its τ and acceptance are unknown."


def _batches(grid: Grid) -> Iterator[str]:
    if together := int((grid.numbers["batch"] > 1).sum()):
        alone = int((grid.completed & ~(grid.numbers["batch"] > 1)).all(axis=1).sum())
        yield (
            f"{together:,} runs were decoded in batches; tokens/s and speed-ups are those of the "
            f"{alone:,} tasks whose runs were decoded alone."
        )


def other_texts(grid: Grid) -> Iterator[str]:
    """Yield the caveats of a study that compares batches: a run must be the same in all of them."""
    first = dict[tuple[float, ...], Array]()
    differ = runs = 0
    tasks = zip(grid.item, grid.repeat, grid.temperature, strict=True)
    for task, likelihoods in zip(tasks, grid.numbers["log_likelihood"], strict=True):
        smallest = first.setdefault(task, likelihoods)
        differ += int((np.abs(likelihoods - smallest) > 0).sum())
        runs += int(np.isfinite(likelihoods - smallest).sum()) * (smallest is not likelihoods)
    if differ:
        yield f"{differ:,} of {runs:,} runs in larger batches have another text than in the smallest."


def _environment(environment: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Devices of one kind count as one: ``cuda:0 (H200)`` and ``cuda:1 (H200)``."""
    for name in ONE_VALUE:
        kinds = dict.fromkeys(
            re.sub(r"^(\w+):\d+", r"\1", value) for value in environment.get(name, ())
        )
        if len(kinds) > 1:
            yield f"The runs were made with several values of {name} ({'; '.join(kinds)}); speeds of different ones are not comparable."
