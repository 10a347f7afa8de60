"""The lanes of a comparison while it runs, as frames: what changes on the page with every event of
the driver. No gradio."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from display.format import count, duration, plural
from mars_core.jobs import Wrote
from mars_core.models import PairSpec
from mars_core.rules import shift_kind
from mars_core.types import RunConfig, ShiftKind, Status, Trace
from storage import StoredComparison
from ui.jobs.driver import DriverEvent, Ready, Saved, Started, Waiting
from ui.kit.components import WARMING, Strip, message_strip
from ui.kit.labels import lane_labels, run_names
from ui.result.details import Details
from ui.result.result import ended_result, headlines, speed_of, turn_name
from ui.result.turns import turns_html
from ui.token_view.tiles import LaneCounts, lane_check, stat_tiles
from ui.token_view.view import LaneView, TokenRow, ended_view, prefix_rows, row_flags, token_rows

FIRST = "Runs first, after a short warm-up."
LATER = "Runs {}: running them at once would distort the timings."
TURNS = ("first", "second", "third", "fourth")
CONTINUES = "Continues from the chosen token."
SHORT_S = 1.0  # a run


@dataclass(frozen=True, slots=True)
class DisplayedComparison:
    """Which comparison the lanes show: its id, its pair, and by column the lane as saved (None:
    nothing was run there)."""

    comparison: str
    pair: PairSpec
    lanes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What changes on the page: the strip, lanes by column (None: as it was), the details once a
    comparison ended, and ``displayed``. ``opens``: another result begins, whose details are not there
    yet, and ``turns`` HTML of those before. ``counterfactual``: HTML of the panel of a relaxed
    token."""

    strip: Strip | None = None
    lanes: tuple[LaneView | None, ...] = ()
    details: Details | None = None
    displayed: DisplayedComparison | None = None
    opens: bool = False
    turns: str | None = None
    counterfactual: str = ""


@dataclass(slots=True)
class WritingLane:
    """What a run has written so far. ``turn``: in the order of execution."""

    column: int
    turn: int
    rows: list[TokenRow]
    counts: LaneCounts = field(default_factory=LaneCounts)
    sent: int = 0  # rows up to the frame before
    repeated: int = 0  # up to the one before that, from which the next delta starts


@dataclass(slots=True)
class Lanes:
    """The columns of the page; owned by the generator that runs them. A continuation has the
    columns that were there, in ``saved`` and ``traces``, and runs one more after them.
    ``earlier``: the turns before."""

    pair: PairSpec
    comparison: str = ""
    saved: tuple[int, ...] = ()  # lane in the store, by column
    traces: dict[int, Trace] = field(
        default_factory=dict
    )  # column → run that ended, in order of execution
    configs: tuple[RunConfig, ...] = ()  # by column
    order: tuple[int, ...] = ()
    first: int = 0  # column of the first run of this go
    rows: dict[int, tuple[TokenRow, ...]] = field(default_factory=dict)
    unsaved: str = ""  # why a run could not be saved
    writing: WritingLane | None = None
    displayed: DisplayedComparison | None = None  # goes with the next frame
    speeds: dict[int, list[float]] = field(
        default_factory=dict
    )  # column → tokens/s of its run and its repeats
    rounds: int = 0
    earlier: tuple[StoredComparison, ...] = ()

    def frame(self, event: DriverEvent) -> Frame | None:
        match event:
            case Waiting(message):
                return Frame(message_strip(message, "running"))
            case Ready(batch):
                self.order = batch.order
                self.rounds += len(batch.order) // len(batch.configs)
                return None if {*batch.lanes} <= {*self.saved} else self._open(event)
            case Started() if self.first + event.run in self.traces:
                return self._repeat(event)
            case Started():
                self._start(event)
            case Wrote() if self.first + event.run not in self.traces:
                return self._write(event)
            case Saved():
                known = self.first + event.run in self.traces
                self.speeds.setdefault(self.first + event.run, []).append(speed_of(event.trace))
                return None if known else self._end(event)
        return None

    def closing(self, strip: Strip | None = None) -> Frame:
        """Return what came of it; ``strip``: instead of the sentence."""
        side = f"Not saved: {self.unsaved}" if self.unsaved else "Saved to History"
        ended = ended_result(
            self.traces,
            self.name,
            self.labels,
            side=side,
            rows=self.rows,
            speeds=self.speeds,
        )
        return Frame(strip or ended.strip, ended.lanes, ended.details, self._take_displayed())

    @property
    def slowest_s(self) -> float:
        """Of the runs; infinite unless every lane has run to its end."""
        ended = [
            trace.summary.wall_s
            for trace in self.traces.values()
            if trace.status is Status.COMPLETED
        ]
        return max(ended) if ended and len(ended) == len(self.configs) else math.inf

    @property
    def name(self) -> str:
        return turn_name(self.comparison, self.earlier)

    @property
    def labels(self) -> tuple[str, ...]:
        ended = {column: trace.config for column, trace in self.traces.items()}
        return lane_labels([ended.get(at, config) for at, config in enumerate(self.configs)])

    def _open(self, event: Ready) -> Frame:
        batch, self.first = event.batch, len(self.traces)
        self.configs = (*(trace.config for trace in self.traces.values()), *batch.configs)
        lanes = list[LaneView | None]([None] * len(self.configs))
        for turn, run in enumerate(dict.fromkeys(batch.order)):
            chip, note = ("waiting", LATER.format(TURNS[turn])) if turn else ("warming up", FIRST)
            column, note = self.first + run, CONTINUES if self.first else note
            lanes[column] = LaneView(self.labels[column], "waiting", chip, empty=note)
        there, self.saved = self.saved, self.saved + batch.lanes
        asked = bool(self.earlier) and not self.first  # lanes that have a run in an earlier turn
        shown = self.saved if asked else (*there, *[None] * len(batch.configs))
        displayed = DisplayedComparison(self.comparison, self.pair, shown)
        turns = turns_html(self.earlier, self.configs)
        strip = self._running(WARMING)
        return Frame(strip, tuple(lanes), displayed=displayed, opens=True, turns=turns)

    def _start(self, event: Started) -> None:
        self.writing = WritingLane(
            self.first + event.run, event.turn, prefix_rows(event.prefix, event.text)
        )
        if event.turn == 0:
            self.comparison = event.comparison
            self.displayed = DisplayedComparison(self.comparison, self.pair, self.saved)

    def _write(self, event: Wrote) -> Frame | None:
        """Write the delta, which repeats the one before it, so that the page survives a lost one."""
        assert self.writing is not None
        now, config = self.writing, self.configs[self.writing.column]
        flags = row_flags(config, _shift_kind(config))
        for step in event.steps:
            now.counts = now.counts.after(step)
            now.rows += token_rows(step.tokens, event.text, flags, config.rule)
        if event.last:
            return None  # the full view comes next
        view = self._live(now, config)
        now.repeated, now.sent = now.sent, len(now.rows)
        return self._lane(self._progress(now, config), now.column, view)

    def _live(self, now: WritingLane, config: RunConfig) -> LaneView:
        return LaneView(
            self.labels[now.column],
            state="running",
            chip=f"{count(now.counts.tokens)} of {plural(config.max_new_tokens, 'token')}",
            run=self._name(now.column),
            start=now.repeated,
            rows=tuple(now.rows[now.repeated :]),
            complete=False,
            tiles=stat_tiles(now.counts, _shift_kind(config)),
            progress=now.counts.tokens / config.max_new_tokens,
            check=lane_check(config, now.counts.tv_max, now.counts.tokens),
        )

    def _progress(self, now: WritingLane, config: RunConfig) -> Strip:
        longest, runs, counts = config.max_new_tokens, len(self.order), now.counts
        text = f"Run {now.turn + 1} of {runs}: {self.labels[now.column]}, {count(counts.tokens)} of at most {plural(longest, 'token')}"
        left = (
            counts.elapsed_s
            / counts.tokens
            * (longest - counts.tokens + (runs - now.turn - 1) * longest)
        )
        side = f"{duration(counts.elapsed_s)}, at most {duration(left)} to go"
        return self._running(text, side, (now.turn + counts.tokens / longest) / runs)

    def _running(self, text: str, side: str = "", progress: float = 0.0) -> Strip:
        """Return the cards with the numbers of what has been written so far."""
        now = self.writing
        live = {now.column: now.counts} if now and now.column not in self.traces else {}
        strip = message_strip(text, "running", side=side, progress=progress)
        return replace(strip, numbers=headlines(run_names(self.configs), self.traces, live))

    def _repeat(self, event: Started) -> Frame | None:
        """Announce a repeat: of short runs only the first of a round is announced: a frame takes a
        tenth as long as such a run."""
        if event.turn % len(self.configs) and self.slowest_s < SHORT_S:
            return None
        turn = f"Run {1 + len(self.speeds.get(event.run, ()))} of {self.rounds} of every lane, to measure the time"
        strip = f"{turn}: {self.labels[event.run]}"
        return Frame(self._running(strip, progress=event.turn / len(self.order)))

    def _end(self, event: Saved) -> Frame:
        assert self.writing is not None
        column, rows = self.writing.column, tuple(self.writing.rows)
        if event.trace.config.served:  # the whole answer says more than its parts did
            rows = ended_view(event.trace, "").rows
        self.traces[column], self.rows[column] = event.trace, rows
        self.unsaved = event.error or self.unsaved
        return self._lane(None, column, ended_view(event.trace, self._name(column), rows=rows))

    def _name(self, column: int) -> str:
        return f"{self.name}/{self.saved[column]}"

    def _lane(self, strip: Strip | None, column: int, view: LaneView) -> Frame:
        lanes = tuple(view if other == column else None for other in range(len(self.configs)))
        return Frame(strip, lanes, displayed=self._take_displayed())

    def _take_displayed(self) -> DisplayedComparison | None:
        displayed, self.displayed = self.displayed, None
        return displayed


def _shift_kind(config: RunConfig) -> ShiftKind:
    return shift_kind(config.rule.name, config.drafter, config.sampling.temperature)
