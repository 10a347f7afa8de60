"""One round of the blind vote as a plain generator of frames, and the vote itself. Runs in a test
without a browser.

Both runs go one after the other, warm, in random order, a server's last, as on Compare. While they run the page gets
joint progress only, in coarse steps: no text, no rule, no speed, no order. Which run is Answer A is
chosen apart from the order and stays on the server.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from display.format import about
from display.names import rule_label
from mars_core.jobs import Wrote
from mars_core.settings import Settings
from mars_core.types import Status, StopReason, Trace
from storage import Choice, Source, StorageError
from ui.jobs.admission import admit
from ui.jobs.driver import Batch, DriverEvent, Ready, Saved, Started, Waiting, drive
from ui.jobs.services import Services
from ui.kit.components import WARMING, Strip, message_strip
from ui.public.latest import Latest
from ui.tabs.votes.view import Round, RoundView, question_view, revealed, same_strip

if TYPE_CHECKING:
    from mars_core.session import Session

MOST_OPEN = 500  # rounds that wait for their vote; beyond that the oldest are forgotten
PROGRESS_STEPS = 20
QUESTION = message_strip(
    "Which answer is better? Keys 1 to 4 vote as well; the rules are displayed afterwards.", "done"
)
NO_VOTE = "The round ended without a vote; its runs are in History."


@dataclass(frozen=True, slots=True)
class RoundFrame:
    """What changes on the page."""

    strip: Strip
    view: RoundView | None = None


class OpenRound(NamedTuple):
    """A round that waits for its vote. ``left_lane``: the lane that is Answer A."""

    comparison: str
    left_lane: int


Rounds = Latest[
    OpenRound
]  # by page (``Services.key``): one that is taken can be voted on only by that page


@dataclass(slots=True)
class _Writing:
    """A round under way; owned by its generator."""

    comparison: str = ""
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended
    unsaved: str = ""  # why a run could not be saved
    longest: int = 0  # tokens one run may write
    tokens: int = 0  # of the run under way
    began: float = 0.0
    strip: Strip | None = None  # as it was displayed last

    @property
    def failed(self) -> Trace | None:
        return next(
            (trace for trace in self.traces.values() if trace.status is Status.FAILED), None
        )

    def frame(self, event: DriverEvent) -> RoundFrame | None:
        """Return what ``event`` changes: while runs write, nothing but joint progress."""
        match event:
            case Waiting(message):
                return RoundFrame(message_strip(message, "running"))
            case Ready(batch):
                self.longest, self.began = batch.configs[0].max_new_tokens, time.monotonic()
                return RoundFrame(message_strip(WARMING, "running"), RoundView("writing"))
            case Started():
                self.comparison, self.tokens = event.comparison, 0
            case Saved():
                self.traces[event.run], self.unsaved = event.trace, event.error or self.unsaved
            case Wrote():
                self.tokens += sum(len(step.emitted) for step in event.steps)
                before, self.strip = self.strip, self._progress()
                return RoundFrame(self.strip) if self.strip != before and not event.last else None
        return None

    def _progress(self) -> Strip:
        """Return the progress of both runs together. Coarse on purpose: a run's pace must not be
        read from it."""
        ended = [trace.summary.new_tokens for trace in self.traces.values()]
        done, expected = sum(ended) + self.tokens, sum(ended) + self.longest * (2 - len(ended))
        left = (time.monotonic() - self.began) / max(1, done) * (expected - done)
        progress = math.floor(PROGRESS_STEPS * done / max(1, expected)) / PROGRESS_STEPS
        return message_strip(
            f"Writing both answers; {about(left)} left at most.", "running", progress=progress
        )

    def broken(self) -> Strip | None:
        """Return why the round that has ended gets no vote; None where it gets one."""
        traces = self.traces.values()
        if self.unsaved:
            return message_strip(
                f"Not saved: {self.unsaved} The round ends without a vote.", "failed"
            )
        if self.failed:
            return message_strip(f"A run failed: {self.failed.error} {NO_VOTE}", "failed")
        if len(traces) == 2 and all(trace.status is Status.COMPLETED for trace in traces):
            return None
        if any(trace.stop_reason is StopReason.DEADLINE for trace in traces):
            return message_strip(f"The time for one request is up. {NO_VOTE}", "cancelled")
        return message_strip(
            f"Stopped. {NO_VOTE}" if traces else "Stopped before the first token.", "cancelled"
        )


def write_answers(services: Services, rounds: Rounds, settings: Settings) -> Iterator[RoundFrame]:
    """Write both answers, none after one that failed, then show them at once. Raises JobError."""
    rounds.take(services.key)  # the round before gets no vote
    spec, writing = admit(services, settings), _Writing()

    def read(session: Session) -> Iterable[Batch]:
        configs = session.configs(settings, services.answers)
        names = [rule_label(each.rule.name, each.rule.parameters) for each in configs]
        if len(set(names)) != 2:
            raise ValueError(f"A blind vote needs two rules that differ; both are {names[0]}.")
        return [Batch(configs, services.rounds(configs, 1), source=Source.VOTE)]

    with closing(drive(services, spec, read, runs=2, new_tokens=settings.max_new_tokens)) as events:
        for event in events:
            frame = writing.frame(event)
            if frame:
                yield frame
            if writing.failed:
                break
    yield _closing(services, writing, rounds)


def _closing(services: Services, writing: _Writing, rounds: Rounds) -> RoundFrame:
    if broken := writing.broken():
        return RoundFrame(broken, RoundView())
    side = secrets.randbelow(2)  # from the system's randomness, which no seed repeats
    round_ = Round(writing.comparison, (writing.traces[0], writing.traces[1]), side)
    if round_.same_text:
        return RoundFrame(same_strip(round_), revealed(round_, None))
    rounds.put(services.key, OpenRound(round_.comparison, round_.left_lane))
    return RoundFrame(QUESTION, question_view(round_))


def cast_vote(services: Services, rounds: Rounds, choice: Choice) -> tuple[str, Round] | None:
    """Save the vote on the page's round: its id, for its comment, and the round; None where none
    waits for one. Raises StorageError, and then it may be tried again."""
    waiting = rounds.take(services.key)
    if waiting is None:
        return None
    try:
        first, second = (run.trace for run in services.store.load(waiting.comparison).runs)
        round_ = Round(waiting.comparison, (first, second), waiting.left_lane)
        left, right = round_.left_lane, round_.right_lane
        vote = services.store.add_vote(
            round_.comparison, left_lane=left, right_lane=right, choice=choice
        )
    except StorageError:
        rounds.put(services.key, waiting)
        raise
    return vote, round_
