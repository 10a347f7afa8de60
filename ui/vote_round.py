"""One round of the blind vote as a plain generator of frames, and the vote itself. Runs in a test without a browser.

Both runs go one after the other, warm, in random order, as on Compare. While they run the page gets joint progress only, in coarse
steps: no text, no rule, no speed, no order. Which run is Answer A is drawn apart from the order and stays on the server.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from mars_core.comparison import warm_up
from mars_core.types import RunConfig, Status, Trace
from storage import Choice, Source, StorageError
from ui.components import Strip, words
from ui.form import Form, read_configs, read_pair, read_prompt
from ui.format import plural
from ui.handlers import load, start_session
from ui.labels import lane_label
from ui.runs import INTERVAL_S, burst
from ui.vote_view import Round, RoundView, asking, revealed, same_strip
from ui.workplace import Workplace

if TYPE_CHECKING:
    from mars_core.models import Pair
    from mars_core.session import Run, Session

MOST_OPEN = 500  # rounds that wait for their vote; beyond that the oldest are forgotten
PROGRESS_STEPS = 20
WRITING = RoundView("writing")
ASK = "Which answer is better? Keys 1 to 4 vote as well; the rules are told afterwards."
LEFT_OVER = "The round ends without a vote; what was written is in History."


@dataclass(frozen=True, slots=True)
class RoundFrame:
    """What changes on the page; ``round`` is the id under which the server keeps a round that waits for its vote."""

    strip: Strip
    view: RoundView | None = None
    round: str = ""


class Rounds:
    """Rounds that wait for their vote. Safe between threads; whoever takes one is the only one to vote on it."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Round] = OrderedDict()
        self._lock = Lock()

    def open(self, round_: Round) -> str:
        """Keep it; returns the id to take it with."""
        name = secrets.token_hex(16)
        self.keep(name, round_)
        return name

    def keep(self, name: str, round_: Round) -> None:
        with self._lock:
            self._waiting[name] = round_
            while len(self._waiting) > MOST_OPEN:
                self._waiting.popitem(last=False)

    def take(self, name: str) -> Round | None:
        """The round, once; None where it was taken, forgotten or never there."""
        with self._lock:
            return self._waiting.pop(name, None)


@dataclass(slots=True)
class _Pace:
    """Joint progress of both runs. Coarse on purpose: a run's own pace must not be read from it."""

    longest: int  # tokens one run may write
    began: float = field(default_factory=time.monotonic)
    ended: list[int] = field(default_factory=list)  # tokens of runs that ended

    def strip(self, tokens: int) -> Strip:
        """``tokens``: of the run under way."""
        done = sum(self.ended) + tokens
        whole = sum(self.ended) + self.longest * (2 - len(self.ended))
        left = (time.monotonic() - self.began) / max(1, done) * (whole - done)
        return words(
            f"Writing both answers; {remaining(left)}.",
            "running",
            progress=math.floor(PROGRESS_STEPS * done / max(1, whole)) / PROGRESS_STEPS,
        )


def remaining(seconds: float) -> str:
    """The time left, in words that do not flicker."""
    if seconds < 5:
        return "a few seconds left at most"
    if seconds < 100:
        return f"about {5 * math.ceil(seconds / 5)} s left at most"
    return f"about {plural(math.ceil(seconds / 60), 'minute')} left at most"


@dataclass(slots=True)
class _Writing:
    """A round under way; owned by its generator."""

    workplace: Workplace
    visitor: str
    session: Session
    configs: tuple[RunConfig, ...]
    comparison: str
    pace: _Pace
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended
    unsaved: str = ""  # why a run could not be saved

    def stopped(self) -> bool:
        return self.workplace.stops.requested(self.visitor)

    @property
    def completed(self) -> bool:
        return all(trace.status is Status.COMPLETED for trace in self.traces.values())


def either_side() -> int:
    """The lane that becomes Answer A; from the system's randomness, which no seed repeats."""
    return secrets.randbelow(2)


def write_answers(
    workplace: Workplace, rounds: Rounds, form: Form, visitor: str, *, side: Callable[[], int] = either_side
) -> Iterator[RoundFrame]:
    """Write both answers, then show them at once. Never raises for bad input: the strip says it."""
    try:
        read_prompt(form)
        pair = yield from load(workplace, read_pair(form, workplace.catalog), RoundFrame)
        writing = _begin(workplace, form, pair, visitor)
    except (ValueError, StorageError) as error:
        yield RoundFrame(words(str(error), "failed"), RoundView())
        return
    yield RoundFrame(words("Warming up: a few tokens that do not count …", "running"), WRITING)
    if pair.spec not in workplace.ran:  # in a fresh process the warm-up of each run alone is not enough
        for config in writing.configs:
            workplace.engine.submit(warm_up, writing.session, config).result()
    writing.pace.began = time.monotonic()
    for place, lane in enumerate(workplace.order(2)):
        if not writing.completed or writing.stopped():
            break
        yield from _write(writing, lane, place)
    if writing.traces and writing.completed:
        workplace.ran.add(pair.spec)
    yield _closing(writing, rounds, side)


def _begin(workplace: Workplace, form: Form, pair: Pair, visitor: str) -> _Writing:
    """Raises ValueError for what cannot be run, StorageError."""
    session, configs = start_session(pair), read_configs(form, pair)
    names = list(map(lane_label, configs))
    if len(set(names)) != 2:
        raise ValueError(f"A blind vote needs two rules that differ; both are {names[0]}.")
    for config in configs:
        session.start(config)
    comparison = workplace.store.new_comparison(configs[0].prompt, source=Source.VOTE)
    return _Writing(workplace, visitor, session, configs, comparison, _Pace(configs[0].max_new_tokens))


def _write(writing: _Writing, lane: int, place: int) -> Iterator[RoundFrame]:
    """One run, warmed up directly before it, as every run is; whatever happens, it is saved."""
    config = writing.configs[lane]
    writing.workplace.engine.submit(warm_up, writing.session, config).result()
    run = writing.session.start(config)
    try:
        yield from _progress(writing, run)
    finally:
        trace = writing.traces[lane] = run.trace()
        writing.pace.ended.append(trace.summary.new_tokens)
        try:
            writing.workplace.store.save_run(writing.comparison, trace, lane=lane, order=place)
        except StorageError as error:
            writing.unsaved = str(error)


def _progress(writing: _Writing, run: Run) -> Iterator[RoundFrame]:
    """A frame whenever the words or the bar change."""
    tokens, goes_on, shown = 0, True, None
    while goes_on:
        steps, goes_on = writing.workplace.engine.submit(burst, run, INTERVAL_S, writing.stopped).result()
        tokens += sum(len(step.emitted) for step in steps)
        strip = writing.pace.strip(tokens)
        if goes_on and strip != shown:
            shown = strip
            yield RoundFrame(strip)


def _closing(writing: _Writing, rounds: Rounds, side: Callable[[], int]) -> RoundFrame:
    if writing.unsaved:
        return RoundFrame(words(f"Not saved: {writing.unsaved} The round ends without a vote.", "failed"), RoundView())
    if len(writing.traces) < 2 or not writing.completed:
        return RoundFrame(_broken(writing), RoundView())
    round_ = Round(writing.comparison, (writing.traces[0], writing.traces[1]), side())
    if round_.same_text:
        return RoundFrame(same_strip(round_), revealed(round_, None))
    return RoundFrame(words(ASK, "done"), asking(round_), rounds.open(round_))


def _broken(writing: _Writing) -> Strip:
    failed = next((trace for trace in writing.traces.values() if trace.status is Status.FAILED), None)
    if failed:
        return words(f"A run failed: {failed.error} {LEFT_OVER}", "failed")
    return words(f"Stopped. {LEFT_OVER}" if writing.traces else "Stopped before the first token.", "cancelled")


@dataclass(frozen=True, slots=True)
class Cast:
    """A vote that was saved. ``id`` is the vote's, for its comment."""

    id: str
    round: Round
    choice: Choice


def cast_vote(workplace: Workplace, rounds: Rounds, name: str, choice: Choice) -> Cast | None:
    """Save the vote on the round of that name; None where it has one already. Raises StorageError, and then it may be tried again."""
    round_ = rounds.take(name)
    if round_ is None:
        return None
    try:
        vote = workplace.store.add_vote(
            round_.comparison, left_lane=round_.left_lane, right_lane=round_.right_lane, choice=choice
        )
    except StorageError:
        rounds.keep(name, round_)
        raise
    return Cast(vote, round_, choice)
