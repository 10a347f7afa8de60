"""The lanes of a comparison: one job of the accelerator, its events streamed as frames, every run saved whatever happens.

Stop ends a run before its next step. A closed tab closes the generator, and the ``finally`` of the run that was under way saves
that run as cancelled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from mars_core.jobs import Began, Ended, Event, Job, Wrote
from mars_core.jobs.record import Record
from mars_core.models import PairSpec
from mars_core.types import DraftMode, RunConfig, Trace
from storage import StorageError
from ui.jobs.frames import Frame, lane_frame
from ui.kit.components import Strip, words
from ui.kit.format import count, duration
from ui.kit.labels import lane_labels
from ui.kit.told import told
from ui.result.tiles import Counts, lane_check, stat_tiles
from ui.result.token_view import LaneView, Row, ended_view, given_rows, token_rows
from ui.result.whatif import samples_drafts
from ui.services import Services

INTERVAL_S = 0.125  # between two updates of the page


@dataclass(slots=True)
class Comparison:
    """A comparison under way; owned by its generator. Lanes are columns of the page; ``saved``: the lanes as which they are saved."""

    services: Services
    visitor: str
    pair: PairSpec
    id: str
    configs: tuple[RunConfig, ...]
    saved: tuple[int, ...]
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended, in order of execution
    rows: dict[int, tuple[Row, ...]] = field(default_factory=dict)  # lane → token rows of such a run
    unsaved: str = ""  # why a run could not be saved

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


def run_lanes(comparison: Comparison, order: Sequence[int], before: int = 0) -> Iterator[Frame]:
    """Stream the lanes of ``order`` one after the other, after ``before`` runs saved earlier. Raises AcceleratorError."""
    services = comparison.services
    job = Job(comparison.pair, comparison.configs, tuple(order), services.limits.seconds or math.inf, INTERVAL_S)
    events = services.accelerator.run(job, services.stops.of(comparison.visitor))
    with closing(events):
        for event in events:
            if isinstance(event, Began):
                turn = Turn(event.run, order.index(event.run), len(order), before)
                yield from _lane(comparison, turn, event, events)


def _lane(comparison: Comparison, turn: Turn, began: Began, events: Iterator[Event]) -> Iterator[Frame]:
    """Stream one lane; whatever happens, the run is saved."""
    lane, record = turn.lane, Record(began)
    try:
        yield from _stream(comparison, turn, began, record, events)
    finally:
        comparison.traces[lane] = record.trace()
        _save(comparison, turn)
    view = ended_view(comparison.traces[lane], f"{comparison.id}/{comparison.saved[lane]}", rows=comparison.rows[lane])
    yield lane_frame(None, lane, view, len(comparison.configs))


def _stream(
    comparison: Comparison, turn: Turn, began: Began, record: Record, events: Iterator[Event]
) -> Iterator[Frame]:
    """A frame with the first step, then about every 125 ms. Each delta repeats the one before it, so that the page survives a
    lost one."""
    config, lanes = comparison.configs[turn.lane], len(comparison.configs)
    drafts = DraftMode.SAMPLED if samples_drafts(config) else DraftMode.GREEDY
    counts, rows, sent, before = Counts(), given_rows(began.given, began.text), 0, 0
    for event in events:
        assert isinstance(event, Wrote | Ended)
        record.follow(event)
        if isinstance(event, Ended):
            break
        for step in event.steps:
            counts = counts.after(step)
            rows += token_rows(step.tokens, event.text, greedy=config.sampling.temperature == 0, drafts=drafts)
        if event.last:
            continue  # the whole view comes next
        view = _live(comparison, turn, counts, rows[before:], before)
        yield lane_frame(_progress(comparison, counts, turn), turn.lane, view, lanes)
        before, sent = sent, len(rows)
    comparison.rows[turn.lane] = tuple(rows)


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
    lane, order = comparison.saved[turn.lane], turn.before + turn.place
    try:
        comparison.services.keep(comparison.id, comparison.traces[turn.lane], lane=lane, order=order)
    except StorageError as error:
        comparison.unsaved = told(error, public=comparison.services.public)
