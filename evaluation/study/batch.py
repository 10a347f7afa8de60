"""Many runs in one batch. What a batch says about time is its throughput: the time of every step is
divided equally among the rows in it. The runs' traces have no times, which would not be latencies.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluation.plan.valid import MAX_BATCH
from evaluation.study.engine import Talk
from evaluation.study.result import NAN
from mars_core.numbers import read_integer
from mars_core.types import RunConfig, Trace

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from mars_core.models import Pair
    from mars_core.session import Session

AUTO = "auto"
CPU_BATCH = 16  # of ``auto``: with more rows, arithmetic takes most of the time on a CPU
MEMORY_SHARE = 0.5  # of the free memory, for the caches of a batch
UNTIMED: dict[str, Any] = dict.fromkeys(
    ("wall_s", "ttft_s", "prefill_s", "draft_s", "verify_s", "tokens_per_s"), NAN
)


class BatchRun(NamedTuple):
    """A run of a batch. ``seconds``: its part of the time of the batch."""

    number: int
    trace: Trace
    seconds: float


@dataclass(slots=True)
class _Clock:
    """Divides the time that passes among the runs in the batch. ``_each``: what a run would have
    that had been in it from the beginning."""

    _each: float = 0.0
    _at: float = field(default_factory=time.perf_counter)
    _began: dict[int, float] = field(default_factory=dict)

    def skip(self) -> None:
        """Leave the time since the last call out of the batch's."""
        self._at = time.perf_counter()

    def begin(self, number: int) -> None:
        self._advance()
        self._began[number] = self._each

    def end(self, number: int) -> float:
        self._advance()
        return self._each - self._began.pop(number)

    def _advance(self) -> None:
        now = time.perf_counter()
        self._each += (now - self._at) / max(1, len(self._began))
        self._at = now


def decode(
    session: Session, configs: Iterable[RunConfig], slots: int
) -> Generator[BatchRun, None, None]:
    """Decode the runs of valid configurations with equal drafters, ``slots`` at a time, in the
    order in which they end."""
    clock = _Clock()
    for number, run in session.together(
        configs, slots, began=lambda number, _: clock.begin(number)
    ):
        seconds, trace = clock.end(number), run.trace()
        yield BatchRun(number, without_times(trace), seconds)
        clock.skip()


def converse_together(
    session: Session, talks: Iterable[Talk], slots: int, *, filled: bool
) -> Generator[Talk, None, None]:
    """Yield every conversation when it has ended. A further turn waits until a slot is free, like a
    conversation. ``filled``: runs are repeated so that a batch is full to the end."""
    waiting = deque[Talk]()
    for talk in talks:
        if _goes_on(session, talk):
            talk.seconds = 0.0
            waiting.append(talk)
        else:
            yield talk
    fillers = cycle([talk.config for talk in waiting] if filled else [])
    while waiting:
        running: dict[int, Talk] = {}
        with closing(decode(session, _taken(waiting, running, fillers), slots)) as batch:
            for number, trace, seconds in batch:
                if number not in running:
                    continue
                talk = running.pop(number)
                talk.seconds += seconds
                talk.add(trace)
                if _goes_on(session, talk):
                    waiting.appendleft(talk)
                else:
                    yield talk
                if not (running or waiting):
                    break


def _goes_on(session: Session, talk: Talk) -> bool:
    """Return whether another turn follows, which can be run; else ``talk`` has the error."""
    try:
        if talk.config:
            session.check(talk.config)
    except ValueError as error:
        talk.error = error
    return talk.config is not None and talk.error is None


def _taken(
    waiting: deque[Talk], running: dict[int, Talk], fillers: Iterator[RunConfig | None]
) -> Iterator[RunConfig]:
    """Yield what begins next; ``fillers`` while others run. ``running``: by number, without
    fillers."""
    for number in count():
        config = None
        if waiting:
            running[number] = waiting.popleft()
            config = running[number].config
        elif running:
            config = next(fillers, None)
        if config is None:
            return
        yield config


def without_times(trace: Trace) -> Trace:
    steps = tuple(replace(step, draft_s=NAN, verify_s=NAN, elapsed_s=NAN) for step in trace.steps)
    return replace(trace, steps=steps, summary=replace(trace.summary, **UNTIMED))


def batch_of(text: str, pair: Pair, tokens: int) -> int:
    """Read ``--batch``: a number, or as many rows of ``tokens`` tokens as the memory holds; 1 for
    models that take no batches. Raises ValueError."""
    from mars_core.runs.batch import takes_batches  # imported here because it loads transformers

    rows = 0 if text == AUTO else read_integer(text, "batch", 1, MAX_BATCH, AUTO)
    if not takes_batches(pair):
        return 1
    return rows or _by_memory(pair, tokens)


def _by_memory(pair: Pair, tokens: int) -> int:
    from mars_core.models.memory import free_bytes

    models = filter(None, (pair.target, pair.draft))
    row = tokens * max(2, pair.dtype.itemsize) * sum(map(_cached, models))
    most = CPU_BATCH if pair.device.type == "cpu" else MAX_BATCH
    return max(1, min(most, int(free_bytes(pair.device) * MEMORY_SHARE / row)))


def _cached(model: PreTrainedModel) -> int:
    """Elements of the caches of one token."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    groups = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * groups * width)
