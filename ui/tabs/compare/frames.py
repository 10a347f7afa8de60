"""The lanes of a comparison while it runs, as frames: what changes on the page with every event of
the driver. No gradio."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from display.format import count, duration, plural
from mars_core.jobs import Wrote
from mars_core.models import PairSpec
from mars_core.rules import shift_kind
from mars_core.types import RunConfig, ShiftKind, Status, Summary, Trace
from storage import Repeat, StoredComparison, StoredRun
from ui.jobs.driver import Batch, DriverEvent, Ready, Saved, Started, Waiting
from ui.kit.components import WARMING, Strip, message_strip
from ui.kit.labels import lane_labels, run_names
from ui.result.details import Details
from ui.result.result import by_column, ended_result, headlines, run_name
from ui.result.turns import turns_html
from ui.token_view.tiles import NOTHING, counted, lane_check, stat_tiles
from ui.token_view.view import LaneView, TokenRow, ended_view, prefix_rows, row_flags, token_rows

FIRST = "Runs first, after a short warm-up."
LATER = "Runs {}: running them at once would distort the timings."
TURNS = ("first", "second", "third", "fourth")
CONTINUES = "Continues from the chosen token."
SHORT_S = 1.0  # a run
NO_BATCH = Batch((), ())


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
    comparison ended, and ``displayed``. ``turns``: another result begins, whose details are not
    there yet, with HTML of the turns before. ``counterfactual``: HTML of the panel of a relaxed
    token."""

    strip: Strip | None = None
    lanes: tuple[LaneView | None, ...] = ()
    details: Details | None = None
    displayed: DisplayedComparison | None = None
    turns: str | None = None
    counterfactual: str = ""


@dataclass(slots=True)
class WritingLane:
    """What a run has written so far. ``turn``: in the order of execution."""

    lane: int  # as saved
    column: int
    turn: int
    rows: list[TokenRow]
    numbers: Summary = NOTHING
    sent: int = 0  # rows up to the frame before
    repeated: int = 0  # up to the one before that, from which the next delta starts


@dataclass(slots=True)
class Lanes:
    """The columns of the page; owned by the generator that runs them. ``displayed``: which lanes
    they show, to which a batch with new ones adds them; ``stored``: the comparison as far as it was
    run, saved or not; ``writing``: the run under way, if it is the first of its lane."""

    displayed: DisplayedComparison
    stored: StoredComparison
    batch: Batch = NO_BATCH  # the latest
    writing: WritingLane | None = None
    unsaved: str = ""  # why a run could not be saved

    def frame(self, event: DriverEvent) -> Frame | None:
        match event:
            case Waiting(message):
                return Frame(message_strip(message, "running"))
            case Ready(batch):
                self.batch = batch
                return None if {*batch.lanes} <= {*self.columns} else self._open(batch)
            case Started():
                return self._start(event)
            case Wrote() if self.writing:
                return self._write(self.writing, event)
            case Saved():
                return self._end(event)
        return None

    def closing(self, strip: Strip | None = None) -> Frame:
        """Return what came of it; ``strip``: instead of the sentence."""
        side = f"Not saved: {self.unsaved}" if self.unsaved else "Saved to History"
        ended = ended_result(self.stored, self.columns, labels=self.labels, side=side)
        return Frame(strip or ended.strip, ended.lanes, ended.details)

    @property
    def columns(self) -> tuple[int | None, ...]:
        return self.displayed.lanes

    @property
    def slowest_s(self) -> float:
        """Of the runs; infinite unless every lane has run to its end."""
        ended = [
            trace.summary.wall_s
            for trace in self.traces.values()
            if trace.status is Status.COMPLETED
        ]
        return max(ended) if ended and len(ended) == len(self.columns) else math.inf

    @property
    def traces(self) -> dict[int, Trace]:
        """By column, the runs that ended."""
        runs = by_column(self.stored, self.columns)
        return {column: run.trace for column, run in runs.items()}

    @property
    def configs(self) -> tuple[RunConfig, ...]:
        """By column: of its run, as requested until that has ended."""
        known = dict(zip(self.batch.lanes, self.batch.configs, strict=True))
        known |= {run.lane: run.trace.config for run in self.stored.runs}
        return tuple(known[lane] for lane in self.columns if lane is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        return lane_labels(self.configs)

    def _lane_of(self, event: Started | Saved) -> int:
        """Return the lane of a run, as saved."""
        return self.batch.lanes[event.run]

    def _times(self, lane: int) -> int:
        """Return how often a lane was run."""
        lanes = [
            *(run.lane for run in self.stored.runs),
            *(each.lane for each in self.stored.repeats),
        ]
        return lanes.count(lane)

    def _open(self, batch: Batch) -> Frame:
        first = len(self.columns)
        begun = {run.lane for turn in self.stored.turns for run in turn.runs}
        self.displayed = replace(self.displayed, lanes=(*self.columns, *batch.lanes))
        labels, lanes = self.labels, list[LaneView | None]([None] * len(self.columns))
        for turn, run in enumerate(dict.fromkeys(batch.order)):
            chip, note = ("waiting", LATER.format(TURNS[turn])) if turn else ("warming up", FIRST)
            column, note = first + run, CONTINUES if first else note
            lanes[column] = LaneView(labels[column], "waiting", chip, empty=note)
        shown = tuple(lane if lane in begun else None for lane in self.columns)
        return Frame(
            self._running(WARMING),
            tuple(lanes),
            displayed=replace(self.displayed, lanes=shown),
            turns=turns_html(self.stored.earlier, self.configs),
        )

    def _start(self, event: Started) -> Frame | None:
        lane = self._lane_of(event)
        if self._times(lane):
            self.writing = None
            return self._repeat(event, lane)
        rows = prefix_rows(event.prefix, event.text)
        self.writing = WritingLane(lane, self.columns.index(lane), event.turn, rows)
        if event.turn:
            return None
        self.stored = replace(self.stored, id=event.comparison)
        self.displayed = replace(self.displayed, comparison=event.comparison)
        return Frame(displayed=self.displayed)

    def _write(self, now: WritingLane, event: Wrote) -> Frame | None:
        """Write the delta, which repeats the one before it, so that the page survives a lost one."""
        config = self.configs[now.column]
        flags = row_flags(config, _shift_kind(config))
        for step in event.steps:
            now.numbers = counted(now.numbers, step)
            now.rows += token_rows(step.tokens, event.text, flags, config.rule)
        if event.last:
            return None  # the full view comes next
        view = self._live(now, config)
        now.repeated, now.sent = now.sent, len(now.rows)
        return self._lane(now.column, view, self._progress(now, config))

    def _live(self, now: WritingLane, config: RunConfig) -> LaneView:
        return LaneView(
            self.labels[now.column],
            state="running",
            chip=f"{count(now.numbers.new_tokens)} of {plural(config.max_new_tokens, 'token')}",
            run=run_name(self.stored, now.lane),
            start=now.repeated,
            rows=tuple(now.rows[now.repeated :]),
            complete=False,
            tiles=stat_tiles(now.numbers, _shift_kind(config)),
            progress=now.numbers.new_tokens / config.max_new_tokens,
            check=lane_check(config, now.numbers),
        )

    def _progress(self, now: WritingLane, config: RunConfig) -> Strip:
        longest, runs, counts = config.max_new_tokens, len(self.batch.order), now.numbers
        text = f"Run {now.turn + 1} of {runs}: {self.labels[now.column]}, {count(counts.new_tokens)} of at most {plural(longest, 'token')}"
        left = (
            counts.wall_s
            / counts.new_tokens
            * (longest - counts.new_tokens + (runs - now.turn - 1) * longest)
        )
        side = f"{duration(counts.wall_s)}, at most {duration(left)} to go"
        return self._running(text, side, (now.turn + counts.new_tokens / longest) / runs)

    def _running(self, text: str, side: str = "", progress: float = 0.0) -> Strip:
        """Return the cards with the numbers of what has been written so far."""
        live = {self.writing.column: self.writing.numbers} if self.writing else {}
        strip = message_strip(text, "running", side=side, progress=progress)
        return replace(strip, numbers=headlines(run_names(self.configs), self.traces, live))

    def _repeat(self, event: Started, lane: int) -> Frame | None:
        """Announce a repeat: of short runs only the first of a round is announced: a frame takes a
        tenth as long as such a run."""
        if event.turn % len(self.batch.configs) and self.slowest_s < SHORT_S:
            return None
        ran, left = self._times(lane), self.batch.order[event.turn :].count(event.run)
        turn = f"Run {ran + 1} of {ran + left} of every lane, to measure the time"
        strip = f"{turn}: {self.labels[self.columns.index(lane)]}"
        return Frame(self._running(strip, progress=event.turn / len(self.batch.order)))

    def _end(self, event: Saved) -> Frame | None:
        lane, order, trace = self._lane_of(event), self.stored.executed, event.trace
        self.unsaved = event.error or self.unsaved
        if self.writing is None:
            repeat = Repeat(lane, order, trace.status, trace.summary)
            self.stored = replace(self.stored, repeats=(*self.stored.repeats, repeat))
            return None
        run = StoredRun(event.id, lane, order, trace)
        self.stored, self.writing = replace(self.stored, runs=(*self.stored.runs, run)), None
        view = ended_view(trace, run_name(self.stored, lane))
        return self._lane(self.columns.index(lane), view)

    def _lane(self, column: int, view: LaneView, strip: Strip | None = None) -> Frame:
        lanes = tuple(view if other == column else None for other in range(len(self.columns)))
        return Frame(strip, lanes)


def _shift_kind(config: RunConfig) -> ShiftKind:
    return shift_kind(config.rule.name, config.drafter, config.sampling.temperature)
