"""One lane's run: decoded in the engine's thread, an interval of frames at a time, streamed as frames, and saved whatever happens.

Stop ends a run before its next step. A closed tab closes the generator, and the ``finally`` of the run that was under way saves
that run as cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mars_core.comparison import RUN_FAILURES, warm_up
from mars_core.models import PairSpec
from mars_core.types import DraftMode, RunConfig, Step, Trace
from storage import StorageError
from ui.components import Strip, words
from ui.format import count, duration
from ui.frames import Frame, lane_frame
from ui.labels import lane_labels
from ui.shift import lane_check
from ui.tiles import Counts, stat_tiles
from ui.token_view import LaneView, Row, ended_view, given_rows, token_rows
from ui.whatif import samples_drafts
from ui.workplace import Workplace

if TYPE_CHECKING:
    from mars_core.session import Run, Session

INTERVAL_S = 0.125  # between two updates of the page


@dataclass(slots=True)
class Comparison:
    """A comparison under way; owned by its generator. Lanes are columns of the page; ``saved``: the lanes as which they are saved."""

    workplace: Workplace
    visitor: str
    pair: PairSpec
    session: Session
    id: str
    configs: tuple[RunConfig, ...]
    saved: tuple[int, ...]
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended, in order of execution
    rows: dict[int, tuple[Row, ...]] = field(default_factory=dict)  # lane → token rows of such a run
    unsaved: str = ""  # why a run could not be saved

    @property
    def stopped(self) -> bool:
        return self.workplace.stops.requested(self.visitor)

    @property
    def labels(self) -> tuple[str, ...]:
        return lane_labels(self.configs)


@dataclass(frozen=True, slots=True)
class Turn:
    """A run's place among those of this go: ``place`` of ``runs`` that are still to be made, after ``before`` saved earlier."""

    lane: int
    place: int
    runs: int
    before: int = 0


def run_lane(comparison: Comparison, turn: Turn) -> Iterator[Frame]:
    """Stream one lane, warmed up directly before it, as every lane is; whatever happens, the run is saved."""
    lane, config = turn.lane, comparison.configs[turn.lane]
    comparison.workplace.engine.submit(warm_up, comparison.session, config).result()
    run = comparison.session.start(config)
    try:
        yield from _stream(comparison, run, turn)
    finally:
        comparison.traces[lane] = run.trace()
        _save(comparison, turn)
    view = ended_view(comparison.traces[lane], f"{comparison.id}/{comparison.saved[lane]}", rows=comparison.rows[lane])
    yield lane_frame(None, lane, view, len(comparison.configs))


def _stream(comparison: Comparison, run: Run, turn: Turn) -> Iterator[Frame]:
    """A frame with the first step, then about every 125 ms. Each delta repeats the one before it, so that the page survives a
    lost one."""
    config, lanes = comparison.configs[turn.lane], len(comparison.configs)
    begun, drafts = run.trace(), DraftMode.SAMPLED if samples_drafts(config) else DraftMode.GREEDY
    counts, rows, sent, before = Counts(), given_rows(begun.given, begun.text), 0, 0
    for steps, goes_on in _bursts(comparison, run):
        for step in steps:
            counts = counts.after(step)
            rows += token_rows(step.tokens, run.text, greedy=config.sampling.temperature == 0, drafts=drafts)
        if not goes_on:
            break  # the whole view comes next
        yield lane_frame(
            _progress(comparison, counts, turn),
            turn.lane,
            _live(comparison, turn, counts, rows[before:], before),
            lanes,
        )
        before, sent = sent, len(rows)
    comparison.rows[turn.lane] = tuple(rows)


def _bursts(comparison: Comparison, run: Run) -> Iterator[tuple[list[Step], bool]]:
    """The steps of a run up to its end or its failure, which its trace tells: the first alone, then those of an interval; and
    whether the run goes on."""
    seconds, goes_on = 0.0, True
    while goes_on:
        found = comparison.workplace.engine.submit(burst, run, seconds, lambda: comparison.stopped).result()
        seconds, goes_on = INTERVAL_S, found[1]
        yield found


def burst(run: Run, seconds: float, stopped: Callable[[], bool]) -> tuple[list[Step], bool]:
    """Steps until ``seconds`` have passed, at least one, and whether the run goes on. Cancels it once it is ``stopped``.

    Runs in the engine's thread: a step each would cost two changes of thread a step.
    """
    steps: list[Step] = []
    ends = time.monotonic() + seconds
    with suppress(*RUN_FAILURES):
        for step in run:
            steps.append(step)
            if stopped():
                run.cancel()
            elif time.monotonic() >= ends:
                return steps, True
    return steps, False


def _live(comparison: Comparison, turn: Turn, counts: Counts, rows: Sequence[Row], start: int) -> LaneView:
    config = comparison.configs[turn.lane]
    return LaneView(
        comparison.labels[turn.lane],
        state="running",
        chip=f"{count(counts.tokens)} of {count(config.max_new_tokens)} tokens",
        run=f"{comparison.id}/{comparison.saved[turn.lane]}",
        start=start,
        rows=tuple(rows),
        whole=False,
        tiles=stat_tiles(counts),
        progress=counts.tokens / config.max_new_tokens,
        check=lane_check(config, counts.tv_max, counts.tokens),
    )


def _progress(comparison: Comparison, counts: Counts, turn: Turn) -> Strip:
    config = comparison.configs[turn.lane]
    longest, label = config.max_new_tokens, comparison.labels[turn.lane]
    done = (turn.place + counts.tokens / longest) / turn.runs
    text = f"Run {turn.place + 1} of {turn.runs}: {label}, {count(counts.tokens)} of at most {count(longest)} tokens"
    left = counts.elapsed_s / counts.tokens * (longest - counts.tokens + (turn.runs - turn.place - 1) * longest)
    side = f"{duration(counts.elapsed_s)}, at most {duration(left)} to go"
    return words(text, "running", side=side, progress=done)


def _save(comparison: Comparison, turn: Turn) -> None:
    store, trace = comparison.workplace.store, comparison.traces[turn.lane]
    try:
        store.save_run(comparison.id, trace, lane=comparison.saved[turn.lane], order=turn.before + turn.place)
    except StorageError as error:
        comparison.unsaved = str(error)
