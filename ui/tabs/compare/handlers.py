"""What the buttons of Compare do, as plain generators of frames: what the page shows next. Runs in a test without a browser; knows no
component. Each waits for its turn in the line and keeps it until its generator ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from mars_core.models import PairSpec
from mars_core.types import RunConfig, Trace
from storage import StoredComparison
from ui.jobs.admission import (
    BROKEN_OFF,
    REFUSALS,
    check_configs,
    check_pair,
    chosen_pair,
    refusal,
    ticket,
    turn,
    unbroken,
    waiting,
)
from ui.jobs.frames import Frame, Shown
from ui.jobs.line import Ticket
from ui.jobs.runs import Comparison, run_lanes
from ui.kit.components import Strip, words
from ui.result.result import ended_result
from ui.result.tiles import Counts, stat_tiles
from ui.result.token_view import LaneView
from ui.services import Services
from ui.settings.form import MOST_LANES, Form, read_configs, read_prompt

if TYPE_CHECKING:
    from mars_core.models import Pair
    from mars_core.session import Session

F = TypeVar("F")
FIRST = "Runs first, after a short warm-up."
LATER = "Runs {}: two runs at once would share the processor and falsify both times."
TURNS = ("first", "second", "third", "fourth")
WARMING = "Warming up: a few tokens that do not count, so that the first run is not the slower one …"


def run_comparison(services: Services, form: Form, visitor: str) -> Iterator[Frame]:
    """Run the lanes one after the other and say what came of it. Never raises: the strip says what was wrong."""
    return unbroken(_compare(services, form, visitor), Frame, "compare")


def _compare(services: Services, form: Form, visitor: str) -> Iterator[Frame]:
    with ExitStack() as held:
        try:
            comparison = yield from _begin(services, form, visitor, held)
        except REFUSALS as error:
            yield Frame(refusal(services, error))
            return
        order = services.order(len(comparison.configs))
        yield _opening(comparison, order)
        yield from _through(comparison, order)


def _begin(services: Services, form: Form, visitor: str, held: ExitStack) -> Generator[Frame, None, Comparison]:
    """A new comparison, once its turn has come; ``held`` keeps the turn. Raises one of REFUSALS."""
    prompt = read_prompt(form)
    services.limits.check_prompt(prompt.text, prompt.system, *prompt.stop)
    spec = chosen_pair(services, form)
    place = ticket(services, visitor, runs=len(form.lanes), new_tokens=form.max_new_tokens)
    session = yield from _turn(services, held.enter_context(place), spec, visitor)
    try:
        configs = read_configs(form, session.pair)
        check_configs(services, session, configs)
    except ValueError:
        place.refund()
        raise
    name = services.store.new_comparison(configs[0].prompt)
    return Comparison(services, visitor, spec, name, configs, tuple(range(len(configs))))


def _turn(services: Services, place: Ticket, spec: PairSpec, visitor: str) -> Generator[Frame, None, Session]:
    """Waits for the turn, then for the pair; returns a session on it. Raises one of REFUSALS."""
    for text in turn(place, services.stops.of(visitor).requested):
        yield Frame(waiting(text))
    pair = yield from load(services, spec, Frame)
    return start_session(pair)


def _through(comparison: Comparison, order: Sequence[int], before: int = 0) -> Iterator[Frame]:
    """The runs, and what came of them."""
    try:
        yield from run_lanes(comparison, order, before)
    except BROKEN_OFF as error:
        yield replace(_closing(comparison), strip=refusal(comparison.services, error))
        return
    yield _closing(comparison)


def continue_run(
    services: Services, shown: Shown, column: int, index: int, token: int, visitor: str
) -> Iterator[Frame]:
    """Write on from another token: in a new lane, the text of ``column`` up to output position ``index``, then ``token``, then what
    the same settings make of it. Saved as a further run of the comparison that is shown."""
    return unbroken(_continue(services, shown, column, index, token, visitor), Frame, "continue")


def _continue(services: Services, shown: Shown, column: int, index: int, token: int, visitor: str) -> Iterator[Frame]:
    with ExitStack() as held:
        try:
            stored = services.store.load(shown.comparison)
            columns = [next((run.trace for run in stored.runs if run.lane == lane), None) for lane in shown.lanes]
            config = continued(columns, column, index, token)
            check_pair(services, shown.pair)
            place = ticket(services, visitor, runs=1, new_tokens=config.max_new_tokens)
            session = yield from _turn(services, held.enter_context(place), shown.pair, visitor)
            check_configs(services, session, [config])
        except REFUSALS as error:
            yield Frame(refusal(services, error))
            return
        comparison = _joined(services, visitor, shown, stored, columns, config)
        yield _joining(comparison)
        yield from _through(comparison, (len(shown.lanes),), before=len(stored.runs))


def continued(columns: Sequence[Trace | None], column: int, index: int, token: int) -> RunConfig:
    """The configuration of the run that continues ``column`` with ``token`` at output position ``index``. Raises ValueError."""
    trace = columns[column] if 0 <= column < len(columns) else None
    if trace is None:
        raise ValueError("There is no run to continue in this lane; press Compare first.")
    if None in columns or len(columns) >= MOST_LANES:
        raise ValueError(
            f"All {MOST_LANES} lanes are in use or one is empty; remove one, then continue from the token."
        )
    ids = (*trace.config.prefix, *trace.token_ids)
    if not 0 <= index < len(ids):
        raise ValueError(f"The output position is {index}; this run has positions 0 to {len(ids) - 1}.")
    longest = len(trace.config.prefix) + trace.config.max_new_tokens - index - 1
    if longest < 1:
        raise ValueError(
            f"Position {index} is the last that these settings allow; raise “Max new tokens” to go on from it."
        )
    return replace(trace.config, prefix=(*ids[:index], token), max_new_tokens=longest)


def load(services: Services, spec: PairSpec, frame: Callable[[Strip], F]) -> Generator[F, None, Pair]:
    """Yields the progress of loading, each strip as a ``frame``; returns the pair. Raises ModelError."""
    if spec not in services.pool.loaded():
        yield frame(words(f"Waiting for the pair {spec.title!r} …", "running"))
    messages: SimpleQueue[str | None] = SimpleQueue()  # None: there will be no more
    loading = services.engine.submit(services.pool.get, spec, messages.put)
    loading.add_done_callback(lambda _: messages.put(None))
    while (message := messages.get()) is not None:
        yield frame(words(f"{message} …", "running"))
    return loading.result()


def start_session(pair: Pair) -> Session:
    from mars_core.session import Session  # not before a pair is there: the page starts without all that models need

    return Session(pair)


def _opening(comparison: Comparison, order: Sequence[int]) -> Frame:
    tiles = stat_tiles(Counts())
    lanes = [LaneView(label, state="waiting", tiles=tiles) for label in comparison.labels]
    for place, lane in enumerate(order):
        chip, note = ("waiting", LATER.format(TURNS[place])) if place else ("warming up", FIRST)
        lanes[lane] = replace(lanes[lane], chip=chip, empty=note)
    shown = Shown(comparison.id, comparison.pair, comparison.saved)
    return Frame(words(WARMING, "running"), tuple(lanes), shown=shown)


def _joined(
    services: Services, visitor: str, shown: Shown, stored: StoredComparison, columns: Sequence[Trace | None],
    config: RunConfig,
) -> Comparison:  # fmt: skip
    """The comparison that is shown with one more lane, which is saved after all others that it ever had."""
    traces = {lane: trace for lane, trace in enumerate(columns) if trace is not None}
    saved = tuple(lane for lane in shown.lanes if lane is not None)
    configs = (*(trace.config for trace in traces.values()), config)
    number = 1 + max(run.lane for run in stored.runs)
    return Comparison(services, visitor, shown.pair, shown.comparison, configs, (*saved, number), traces)


def _joining(comparison: Comparison) -> Frame:
    """Only the new lane changes; the others stay on the page as they are."""
    view = LaneView(
        comparison.labels[-1], state="waiting", chip="warming up", tiles=stat_tiles(Counts()), empty="Continues from the chosen token."
    )  # fmt: skip
    lanes = (*(None for _ in comparison.traces), view)
    return Frame(words(WARMING, "running"), lanes, shown=Shown(comparison.id, comparison.pair, comparison.saved))


def _closing(comparison: Comparison) -> Frame:
    side = f"Not saved: {comparison.unsaved}" if comparison.unsaved else "Saved to History"
    ended = ended_result(comparison.traces, comparison.id, comparison.labels, side=side, rows=comparison.rows)
    return Frame(ended.strip, ended.lanes, ended.details)
