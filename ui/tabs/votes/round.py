"""One round of the blind vote as a plain generator of frames, and the vote itself. Runs in a test without a browser.

Both runs go one after the other, warm, in random order, as on Compare. While they run the page gets joint progress only, in coarse
steps: no text, no rule, no speed, no order. Which run is Answer A is drawn apart from the order and stays on the server.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from threading import Lock

from mars_core.jobs import Began, Ended, Event, Job, Wrote
from mars_core.jobs.record import Record
from mars_core.models import PairSpec
from mars_core.types import RunConfig, Status, StopReason, Trace
from storage import Choice, Source, StorageError
from ui.jobs.admission import BROKEN_OFF, REFUSALS, check_configs, chosen_pair, refusal, ticket, turn, unbroken, waiting
from ui.jobs.runs import INTERVAL_S
from ui.kit.components import Strip, words
from ui.kit.format import about
from ui.kit.labels import lane_label
from ui.kit.told import told
from ui.services import Services
from ui.settings.form import Form, read_configs, read_prompt
from ui.tabs.compare.handlers import load, start_session
from ui.tabs.votes.view import Round, RoundView, asking, revealed, same_strip

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
    """Rounds that wait for their vote. Safe between threads; whoever takes one is the only one to vote on it, and nobody but its
    ``owner`` can."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str | None, str], Round] = OrderedDict()
        self._lock = Lock()

    def open(self, round_: Round, owner: str | None = None) -> str:
        """Keep it; returns the name to take it with."""
        name = secrets.token_hex(16)
        self.keep(name, round_, owner)
        return name

    def keep(self, name: str, round_: Round, owner: str | None = None) -> None:
        with self._lock:
            self._waiting[owner, name] = round_
            while len(self._waiting) > MOST_OPEN:
                self._waiting.popitem(last=False)

    def take(self, name: str, owner: str | None = None) -> Round | None:
        """The round, once; None where it was taken, forgotten or never there."""
        with self._lock:
            return self._waiting.pop((owner, name), None)


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
            f"Writing both answers; {about(left)} left at most.",
            "running",
            progress=math.floor(PROGRESS_STEPS * done / max(1, whole)) / PROGRESS_STEPS,
        )


@dataclass(slots=True)
class _Writing:
    """A round under way; owned by its generator."""

    services: Services
    visitor: str
    pair: PairSpec
    configs: tuple[RunConfig, ...]
    comparison: str
    pace: _Pace
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended
    unsaved: str = ""  # why a run could not be saved

    @property
    def completed(self) -> bool:
        return all(trace.status is Status.COMPLETED for trace in self.traces.values())


def either_side() -> int:
    """The lane that becomes Answer A; from the system's randomness, which no seed repeats."""
    return secrets.randbelow(2)


def write_answers(
    services: Services, rounds: Rounds, form: Form, visitor: str, *, side: Callable[[], int] = either_side
) -> Iterator[RoundFrame]:
    """Write both answers, then show them at once. Never raises: the strip says what was wrong."""

    def broken(strip: Strip) -> RoundFrame:
        return RoundFrame(strip, RoundView())

    return unbroken(_answers(services, rounds, form, visitor, side), broken, "vote")


def _answers(
    services: Services, rounds: Rounds, form: Form, visitor: str, side: Callable[[], int]
) -> Iterator[RoundFrame]:
    with ExitStack() as held:
        try:
            writing = yield from _begin(services, form, visitor, held)
        except REFUSALS as error:
            yield RoundFrame(refusal(services, error), RoundView())
            return
        try:
            yield RoundFrame(words("Warming up: a few tokens that do not count …", "running"), WRITING)
            yield from _write(writing)
        except BROKEN_OFF as error:
            yield RoundFrame(refusal(services, error), RoundView())
            return
        yield _closing(writing, rounds, side)


def _begin(services: Services, form: Form, visitor: str, held: ExitStack) -> Generator[RoundFrame, None, _Writing]:
    """A new round, once its turn has come; ``held`` keeps the turn. Raises one of REFUSALS."""
    prompt = read_prompt(form)
    services.limits.check_prompt(prompt.text, prompt.system, *prompt.stop)
    spec = chosen_pair(services, form)
    place = held.enter_context(ticket(services, visitor, runs=2, new_tokens=form.max_new_tokens))
    for text in turn(place, services.stops.of(visitor).requested):
        yield RoundFrame(waiting(text))
    pair = yield from load(services, spec, RoundFrame)
    try:
        configs = read_configs(form, pair)
        names = list(map(lane_label, configs))
        if len(set(names)) != 2:
            raise ValueError(f"A blind vote needs two rules that differ; both are {names[0]}.")
        check_configs(services, start_session(pair), configs)
    except ValueError:
        place.refund()
        raise
    comparison = services.store.new_comparison(configs[0].prompt, source=Source.VOTE)
    return _Writing(services, visitor, spec, configs, comparison, _Pace(configs[0].max_new_tokens))


def _write(writing: _Writing) -> Iterator[RoundFrame]:
    """Both runs, each saved whatever happens; none after one that was not completed. Raises AcceleratorError."""
    services = writing.services
    order = tuple(services.order(2))
    job = Job(writing.pair, writing.configs, order, services.limits.seconds or math.inf, INTERVAL_S)
    writing.pace.began = time.monotonic()
    with closing(services.accelerator.run(job, services.stops.of(writing.visitor))) as events:
        for event in events:
            if isinstance(event, Began):
                yield from _one(writing, event, order.index(event.run), events)
            if not writing.completed:
                return


def _one(writing: _Writing, began: Began, place: int, events: Iterator[Event]) -> Iterator[RoundFrame]:
    record = Record(began)
    try:
        yield from _progress(writing, record, events)
    finally:
        trace = writing.traces[began.run] = record.trace()
        writing.pace.ended.append(trace.summary.new_tokens)
        try:
            writing.services.keep(writing.comparison, trace, lane=began.run, order=place)
        except StorageError as error:
            writing.unsaved = told(error, public=writing.services.public)


def _progress(writing: _Writing, record: Record, events: Iterator[Event]) -> Iterator[RoundFrame]:
    """A frame whenever the words or the bar change."""
    tokens, shown = 0, None
    for event in events:
        assert isinstance(event, Wrote | Ended)
        record.follow(event)
        if isinstance(event, Ended):
            return
        tokens += sum(len(step.emitted) for step in event.steps)
        strip = writing.pace.strip(tokens)
        if not event.last and strip != shown:
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
    return RoundFrame(words(ASK, "done"), asking(round_), rounds.open(round_, writing.services.visitor.owner))


def _broken(writing: _Writing) -> Strip:
    failed = next((trace for trace in writing.traces.values() if trace.status is Status.FAILED), None)
    if failed:
        return words(f"A run failed: {failed.error} {LEFT_OVER}", "failed")
    if any(trace.stop_reason is StopReason.DEADLINE for trace in writing.traces.values()):
        return words(f"The time for one request is up. {LEFT_OVER}", "cancelled")
    return words(f"Stopped. {LEFT_OVER}" if writing.traces else "Stopped before the first token.", "cancelled")


@dataclass(frozen=True, slots=True)
class Cast:
    """A vote that was saved. ``id`` is the vote's, for its comment."""

    id: str
    round: Round
    choice: Choice


def cast_vote(services: Services, rounds: Rounds, name: str, choice: Choice) -> Cast | None:
    """Save the vote on the round of that name; None where it has one already. Raises StorageError, and then it may be tried again."""
    owner = services.visitor.owner
    round_ = rounds.take(name, owner)
    if round_ is None:
        return None
    try:
        vote = services.store.add_vote(
            round_.comparison, left_lane=round_.left_lane, right_lane=round_.right_lane, choice=choice
        )
    except StorageError:
        rounds.keep(name, round_, owner)
        raise
    return Cast(vote, round_, choice)
