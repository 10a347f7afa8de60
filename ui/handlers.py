"""The comparison as a plain generator of frames: what the page shows next. Runs in a test without a browser; knows no component.

The decode loop is this generator. The engine's thread decodes one interval of frames at a time; Stop ends the run before its next
step. A closed tab closes the generator, and the ``finally`` of the run that was under way saves that run as cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from mars_core.comparison import RUN_FAILURES, warm_up
from mars_core.models import PairSpec
from mars_core.types import RunConfig, Status, Step, Trace
from storage import StorageError
from ui.components import Strip, words
from ui.form import Form, read_configs, read_pair, read_prompt
from ui.format import count, duration
from ui.labels import lane_label
from ui.result import Details, ended_result
from ui.shift import lane_check
from ui.tiles import Counts, stat_tiles
from ui.token_view import LaneView, Row, ended_view, token_rows
from ui.workplace import Workplace

if TYPE_CHECKING:
    from mars_core.models import Pair
    from mars_core.session import Run, Session

INTERVAL_S = 0.125  # between two updates of the page
FIRST = "Runs first, after a short warm-up."
LATER = "Runs {}: two runs at once would share the processor and falsify both times."
TURNS = ("first", "second", "third", "fourth")


@dataclass(frozen=True, slots=True)
class Frame:
    """What changes on the page: the strip, lanes by column (None: as it was), and the details once a comparison ended."""

    strip: Strip | None = None
    lanes: tuple[LaneView | None, ...] = ()
    details: Details | None = None


def lane_frame(strip: Strip | None, lane: int, view: LaneView, lanes: int) -> Frame:
    """A frame that changes one lane."""
    return Frame(strip, tuple(view if column == lane else None for column in range(lanes)))


@dataclass(slots=True)
class _Comparison:
    """A comparison under way; owned by its generator."""

    workplace: Workplace
    visitor: str
    configs: tuple[RunConfig, ...]
    session: Session
    id: str = ""
    traces: dict[int, Trace] = field(default_factory=dict)  # lane → run that ended, in order of execution
    rows: dict[int, tuple[Row, ...]] = field(default_factory=dict)  # lane → token rows of such a run
    unsaved: str = ""  # why a run could not be saved

    @property
    def stopped(self) -> bool:
        return self.workplace.stops.requested(self.visitor)


def run_comparison(workplace: Workplace, form: Form, visitor: str) -> Iterator[Frame]:
    """Run the lanes one after the other and say what came of it. Never raises for bad input: the strip says it."""
    try:
        read_prompt(form)
        pair = yield from _load(workplace, read_pair(form, workplace.catalog))
        session = _session(pair)
        configs = read_configs(form, pair)
        for config in configs:
            session.start(config)
        comparison = _Comparison(workplace, visitor, configs, session)
        comparison.id = workplace.store.new_comparison(configs[0].prompt)
    except (ValueError, StorageError) as error:
        yield Frame(words(str(error), "failed"))
        return
    order = workplace.order(len(configs))
    yield _opening(comparison, order)
    if pair.spec not in workplace.ran:  # in a fresh process the warm-up of each run alone is not enough
        for config in configs:
            workplace.engine.submit(warm_up, session, config).result()
    for place, lane in enumerate(order):
        if comparison.stopped:
            break
        yield from _run_lane(comparison, lane, place)
        if comparison.traces[lane].status is not Status.COMPLETED:
            break
        workplace.ran.add(pair.spec)
    yield _closing(comparison)


def _load(workplace: Workplace, spec: PairSpec) -> Generator[Frame, None, Pair]:
    """Yields the progress of loading; returns the pair. Raises ModelError."""
    if spec not in workplace.pool.loaded():
        yield Frame(words(f"Waiting for the pair {spec.title!r} …", "running"))
    messages: SimpleQueue[str | None] = SimpleQueue()  # None: there will be no more
    loading = workplace.engine.submit(workplace.pool.get, spec, messages.put)
    loading.add_done_callback(lambda _: messages.put(None))
    while (message := messages.get()) is not None:
        yield Frame(words(f"{message} …", "running"))
    return loading.result()


def _session(pair: Pair) -> Session:
    from mars_core.session import Session  # not before a pair is there: the page starts without all that models need

    return Session(pair)


def _opening(comparison: _Comparison, order: list[int]) -> Frame:
    tiles = stat_tiles(Counts())
    lanes = [LaneView(lane_label(config), state="waiting", tiles=tiles) for config in comparison.configs]
    for place, lane in enumerate(order):
        chip, note = ("waiting", LATER.format(TURNS[place])) if place else ("warming up", FIRST)
        lanes[lane] = replace(lanes[lane], chip=chip, empty=note)
    return Frame(
        words("Warming up: a few tokens that do not count, so that the first run is not the slower one …", "running"),
        tuple(lanes),
    )


def _run_lane(comparison: _Comparison, lane: int, place: int) -> Iterator[Frame]:
    """Stream one lane, warmed up directly before it, as every lane is; whatever happens, the run is saved."""
    config = comparison.configs[lane]
    comparison.workplace.engine.submit(warm_up, comparison.session, config).result()
    run = comparison.session.start(config)
    try:
        yield from _stream(comparison, run, lane, place)
    finally:
        comparison.traces[lane] = run.trace()
        _save(comparison, lane, place)
    view = ended_view(comparison.traces[lane], f"{comparison.id}/{lane}", rows=comparison.rows[lane])
    yield lane_frame(None, lane, view, len(comparison.configs))


def _stream(comparison: _Comparison, run: Run, lane: int, place: int) -> Iterator[Frame]:
    """A frame with the first step, then about every 125 ms. Each delta repeats the one before it, so that the page survives a
    lost one."""
    counts, rows, sent, before = Counts(), list[Row](), 0, 0
    config, lanes = comparison.configs[lane], len(comparison.configs)
    for steps, goes_on in _bursts(comparison, run):
        for step in steps:
            counts = counts.after(step)
            rows += token_rows(step.tokens, run.text, greedy=config.sampling.temperature == 0)
        if not goes_on:
            break  # the whole view comes next
        view = _live_view(config, f"{comparison.id}/{lane}", counts, rows, before)
        yield lane_frame(_progress(config, counts, place, lanes), lane, view, lanes)
        before, sent = sent, len(rows)
    comparison.rows[lane] = tuple(rows)


def _bursts(comparison: _Comparison, run: Run) -> Iterator[tuple[list[Step], bool]]:
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


def _live_view(config: RunConfig, run: str, counts: Counts, rows: list[Row], start: int) -> LaneView:
    return LaneView(
        lane_label(config),
        state="running",
        chip=f"{count(counts.tokens)} of {count(config.max_new_tokens)} tokens",
        run=run,
        start=start,
        rows=tuple(rows[start:]),
        whole=False,
        tiles=stat_tiles(counts),
        progress=counts.tokens / config.max_new_tokens,
        check=lane_check(config, counts.tv_max, counts.tokens),
    )


def _progress(config: RunConfig, counts: Counts, place: int, lanes: int) -> Strip:
    done = (place + counts.tokens / config.max_new_tokens) / lanes
    text = f"Run {place + 1} of {lanes}: {lane_label(config)}, {count(counts.tokens)} of at most {count(config.max_new_tokens)} tokens"
    return words(text, "running", side=duration(counts.elapsed_s), progress=done)


def _save(comparison: _Comparison, lane: int, place: int) -> None:
    try:
        comparison.workplace.store.save_run(comparison.id, comparison.traces[lane], lane=lane, order=place)
    except StorageError as error:
        comparison.unsaved = str(error)


def _closing(comparison: _Comparison) -> Frame:
    labels = tuple(lane_label(config) for config in comparison.configs)
    side = f"Not saved: {comparison.unsaved}" if comparison.unsaved else "Saved to History"
    ended = ended_result(comparison.traces, comparison.id, labels, side=side, rows=comparison.rows)
    return Frame(ended.strip, ended.lanes, ended.details)
