"""One round of the blind vote as a plain generator of what the page shows, and the vote itself. Runs
in a test without a browser.

Both runs go one after the other, warm, in random order, a server's last, as on Compare. While they
run the page gets joint progress only, in coarse steps: no text, no rule, no speed, no order; until a
vote is cast the two texts and nothing else (no rule, no number, no id of a run), then the token
views of both runs. Which run is Answer A is chosen apart from the order and stays on the server.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from display.format import displayable
from display.names import rule_label
from mars_core.jobs import Wrote
from mars_core.settings import Settings
from mars_core.types import Status, Trace
from storage import Choice, Source, StorageError
from ui.jobs.admission import admit
from ui.jobs.driver import Batch, DriverEvent, Ready, Saved, Started, Waiting, drive
from ui.jobs.services import Services
from ui.kit.components import WARMING, Strip, message_strip
from ui.kit.labels import lane_label, run_names
from ui.kit.panel import render
from ui.kit.values import SentencePart, plain
from ui.public.latest import Latest
from ui.result.result import headlines
from ui.result.sentence import broken_sentence, verdict
from ui.result.view import pair_views
from ui.token_view.view import LaneView

if TYPE_CHECKING:
    from mars_core.session import Session

MOST_OPEN = 500  # rounds that wait for their vote; beyond that the oldest are forgotten
PROGRESS_STEPS = 20
NO_VOTE = "The round ends without a vote; what was saved is in History."
NOTHING = "(This answer is empty.)"
QUESTION = message_strip(
    "Which answer is better? Keys 1 to 4 vote as well; the rules are displayed afterwards.", "done"
)
_HINTS = {
    "empty": "An answer appears here once both are written.",
    "writing": "Being written. Both answers appear at once.",
}
_CHOICES = {
    Choice.LEFT: "A is better",
    Choice.RIGHT: "B is better",
    Choice.TIE: "Tie",
    Choice.BOTH_BAD: "Both bad",
}
_SIDES: Mapping[Choice | None, int] = {Choice.LEFT: 0, Choice.RIGHT: 1}


@dataclass(frozen=True, slots=True)
class Round:
    """Two runs that ended, and which of them is Answer A. Never sent to a browser. ``traces`` by
    lane."""

    comparison: str
    traces: tuple[Trace, Trace]
    left_lane: int  # 0 or 1: the lane that is Answer A

    @property
    def right_lane(self) -> int:
        return 1 - self.left_lane

    @property
    def sides(self) -> tuple[Trace, Trace]:
        """Answer A and Answer B."""
        return self.traces[self.left_lane], self.traces[self.right_lane]

    @property
    def same_text(self) -> bool:
        return self.traces[0].text == self.traces[1].text


@dataclass(frozen=True, slots=True)
class RoundView:
    """``state``: empty, writing, asking or revealed. ``texts``: of both answers while they are
    the question. After the vote: ``comparison``, the id for History, and ``lanes``, the runs of
    Answer A and Answer B."""

    strip: Strip
    state: str = "empty"
    texts: tuple[str, ...] = ()
    comparison: str = ""
    lanes: tuple[LaneView, ...] = ()

    def html(self) -> str:
        hint = _HINTS.get(self.state, "")
        return render("tabs/votes/round.html.jinja", round=self, hint=hint, choices=_CHOICES)


def question_view(round_: Round) -> RoundView:
    """Return both texts, side by side, and the question."""
    texts = tuple(displayable(trace.text) or NOTHING for trace in round_.sides)
    return RoundView(QUESTION, "asking", texts)


def revealed(round_: Round, choice: Choice | None) -> RoundView:
    """Return both runs with their rules, tokens and numbers; ``choice`` is None where the texts
    were the same."""
    views = pair_views(round_.traces, round_.comparison)
    lanes = tuple(
        replace(
            views[lane],
            title=f"Answer {'AB'[side]}: {views[lane].title}{', your choice' if side == _SIDES.get(choice) else ''}",
        )
        for side, lane in enumerate((round_.left_lane, round_.right_lane))
    )
    strip = _reveal_strip(round_, choice)
    return RoundView(strip, "revealed", comparison=round_.comparison, lanes=lanes)


def _reveal_strip(round_: Round, choice: Choice | None) -> Strip:
    """Return the vote in words, then the sentence and the numbers of Compare, which have nothing to
    point to here and say of texts of the same tokens that they are the same."""
    traces = round_.traces
    if choice is None and traces[0].token_ids != traces[1].token_ids:
        reason = ": both rules wrote the same text with different tokens."
        return Strip((SentencePart("Nothing to vote on"), reason), "done")
    words = {
        None: "Nothing to vote on.",
        Choice.TIE: "You called it a tie.",
        Choice.BOTH_BAD: "You found both bad.",
    }.get(choice) or f"You preferred {lane_label(round_.sides[_SIDES[choice]].config)}."
    sentence = [
        part if isinstance(part, str) else replace(part, lane=None) for part in verdict(traces)
    ]
    numbers = headlines(run_names([trace.config for trace in traces]), dict(enumerate(traces)))
    return Strip(
        (SentencePart(words), " ", *sentence),
        "done",
        numbers=tuple(each._replace(relaxed_at=None) for each in numbers),
    )


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

    longest: int  # tokens one run may write
    comparison: str = ""
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended
    unsaved: str = ""  # why a run could not be saved
    tokens: int = 0  # of the run under way

    @property
    def failed(self) -> Trace | None:
        return next(
            (trace for trace in self.traces.values() if trace.status is Status.FAILED), None
        )

    def strip(self, event: DriverEvent) -> Strip | None:
        """Return what ``event`` changes: while runs write, nothing but joint progress."""
        match event:
            case Waiting(message):
                return message_strip(message, "running")
            case Ready():
                return message_strip(WARMING, "running")
            case Started():
                self.comparison, self.tokens = event.comparison, 0
            case Saved():
                self.traces[event.run], self.unsaved = event.trace, event.error or self.unsaved
            case Wrote():
                self.tokens += sum(len(step.emitted) for step in event.steps)
                return None if event.last else self._progress()
        return None

    def _progress(self) -> Strip:
        """Return the progress of both runs together. Coarse on purpose: a run's pace must not be
        read from it."""
        ended = [trace.summary.new_tokens for trace in self.traces.values()]
        done, expected = sum(ended) + self.tokens, sum(ended) + self.longest * (2 - len(ended))
        progress = math.floor(PROGRESS_STEPS * done / max(1, expected)) / PROGRESS_STEPS
        return message_strip("Writing both answers …", "running", progress=progress)

    def broken(self) -> Strip | None:
        """Return why the round that has ended gets no vote; None where it gets one."""
        runs = [(f"Rule {lane + 1}", self.traces.get(lane)) for lane in (0, 1)]
        if not self.unsaved and all(run and run.status is Status.COMPLETED for _, run in runs):
            return None
        words = f"Not saved: {self.unsaved}" if self.unsaved else plain(broken_sentence(runs))
        state = "failed" if self.unsaved or self.failed else "cancelled"
        return message_strip(f"{words} {NO_VOTE}", state)


def write_answers(services: Services, rounds: Rounds, settings: Settings) -> Iterator[RoundView]:
    """Write both answers, none after one that failed, then show them at once. Raises JobError."""
    rounds.take(services.key)  # the round before gets no vote
    spec, writing, shown = admit(services, settings), _Writing(settings.max_new_tokens), None

    def read(session: Session) -> Iterable[Batch]:
        configs = session.configs(settings, services.answers)
        names = [rule_label(each.rule.name, each.rule.parameters) for each in configs]
        if len(set(names)) != 2:
            raise ValueError(f"A blind vote needs two rules that differ; both are {names[0]}.")
        return [Batch(configs, services.rounds(configs, 1), source=Source.VOTE)]

    with closing(drive(services, spec, read, runs=2, new_tokens=settings.max_new_tokens)) as events:
        for event in events:
            strip = writing.strip(event)
            if strip and strip != shown:
                yield RoundView(strip, "writing")
            shown = strip or shown
            if writing.failed:
                break
    yield _closing(services, writing, rounds)


def _closing(services: Services, writing: _Writing, rounds: Rounds) -> RoundView:
    if broken := writing.broken():
        return RoundView(broken)
    side = secrets.randbelow(2)  # from the system's randomness, which no seed repeats
    round_ = Round(writing.comparison, (writing.traces[0], writing.traces[1]), side)
    if round_.same_text:
        return revealed(round_, None)
    rounds.put(services.key, OpenRound(round_.comparison, round_.left_lane))
    return question_view(round_)


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
