"""The lanes of a comparison that are servers: their runs as events of its job, after those of the
lanes that are decoded here."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType

from evaluation.served.answer import Part
from evaluation.served.client import Client
from evaluation.served.counters import WHOLE, Counters, counters_of, counts_between
from evaluation.served.counts import with_counts, with_no_drafts
from evaluation.served.request import request_of
from evaluation.served.server import KEY, Server, ServerError, with_key
from evaluation.served.trace import answer_trace, failed_trace, part_step
from mars_core.jobs import Began, Ended, Job, JobEvent, Why, Wrote, reason_to_end
from mars_core.settings import Settings
from mars_core.types import (
    ANSWER,
    COUNTS,
    SERVER,
    UNKNOWN,
    ModelRef,
    RunConfig,
    Status,
    Step,
    StopReason,
    Trace,
)

ALTERNATIVES = 20  # of a token that are asked for: an entropy needs nearly all of the probability
CONNECT_S = 10.0
COUNTERS_S = 2.0  # without a byte of /metrics
LOOK_S = 0.05  # between two looks at whether to stop
_Item = RunConfig | Part | Trace | Exception  # of a run, as it arrives
LONGEST = 100  # characters of a token, on average, beyond which a server writes more than was asked


def server_of(config: RunConfig, keys: Mapping[str, str]) -> Server:
    """Return the server of a run, which is asked once, with the key of its address. Raises
    ValueError for its address or key, and for a run that is a saved answer."""
    if ANSWER in config.environment:
        raise ValueError("This lane is a saved answer, which is not asked for again.")
    url = config.environment[SERVER]
    return Server(url, config.target.name, keys.get(url, ""), tries=1)


def checked_servers(
    settings: Settings, keys: Mapping[str, str], answered: Collection[int] = ()
) -> list[Server]:
    """Return the servers of the lanes that are not ``answered`` yet. Raises ValueError for what
    they cannot be asked."""
    lanes = [lane for number, lane in enumerate(settings.rules) if number not in answered]
    configs = [settings.served(lane) for lane in lanes if lane.rule.name == SERVER]
    for config in configs:
        request_of(config)
    return [server_of(config, keys) for config in configs]


def server_keys(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of the environment, by address. Raises ValueError for what the servers
    cannot be asked, and for a key that does not say which of them it is for."""
    servers = checked_servers(settings, {})
    key = environment.get(KEY, "")
    if key and "://" not in key and len({each.base for each in servers}) > 1:
        raise ValueError(f"{KEY} is one key, but several servers are asked; write URL=KEY of each.")
    return {each.url: with_key(environment, each).key for each in servers}


def with_servers(
    job: Job,
    keys: Mapping[str, str],
    here: Callable[[Job], Iterator[JobEvent]],
    stopped: Callable[[], bool],
    answers: Mapping[int, Trace] = MappingProxyType({}),
) -> Generator[JobEvent, None, None]:
    """Yield the events of a job: of the runs ``here`` first, then of those of servers, each of
    which is given the key of its address, and of saved ``answers``, by run. A cancelled run is the
    last."""
    why, event = partial(reason_to_end, stopped, time.monotonic() + job.seconds), None
    order = tuple(number for number in job.order if not job.configs[number].served)
    if order:
        for event in here(replace(job, order=order)):
            yield event

    for number in job.order:
        cancelled = isinstance(event, Ended) and event.status is Status.CANCELLED
        if job.configs[number].served and not cancelled and not stopped():
            if answer := answers.get(number):
                events = _read(number, answer)
            else:
                events = _asked_events(number, job.configs[number], keys, why, job.interval_s)
            for event in events:
                yield event


def _read(number: int, answer: Trace) -> Iterator[JobEvent]:
    yield Began(number, answer.config, answer.prompt_ids, (), "")
    yield Ended(number, answer.status, answer.stop_reason, answer.error, answer)


def _asked_events(
    number: int, config: RunConfig, keys: Mapping[str, str], why: Why, interval_s: float
) -> Generator[JobEvent, None, None]:
    """Yield Began, Wrote … and Ended of one run; closed, it ends the request. A thread waits for
    the server, so that the run can be ended at any time."""
    arrived: SimpleQueue[_Item] = SimpleQueue()
    with Client(server_of(config, keys), connect_s=CONNECT_S) as client:
        asked = _asked(client, config, keys)
        Thread(target=_pass_on, args=(asked, arrived), name="server", daemon=True).start()
        try:
            yield from _followed(number, config, arrived, why, interval_s)
        finally:
            client.abort()


def _pass_on(items: Iterator[_Item], arrived: SimpleQueue[_Item]) -> None:
    try:
        for item in items:
            arrived.put(item)
    except Exception as error:  # noqa: BLE001  raised or told by the thread that reads them
        arrived.put(error)


def _asked(client: Client, config: RunConfig, keys: Mapping[str, str]) -> Iterator[_Item]:
    """Yield the run with its model, what the server writes, and the trace."""
    if not config.target.name:
        config = replace(config, target=ModelRef(client.only_model()))
    yield config
    before = _counters(config, keys)
    answer = yield from client.stream(**request_of(config), logprobs=ALTERNATIVES)
    trace = answer_trace(config, with_no_drafts(answer) if before else answer)
    if trace.summary.steps == UNKNOWN and before:
        trace = _counted(trace, before, _counters(config, keys))
    yield trace


def _counters(config: RunConfig, keys: Mapping[str, str]) -> Counters | None:
    with Client(server_of(config, keys), timeout_s=COUNTERS_S) as client:
        return counters_of(client)


def _followed(
    number: int, config: RunConfig, arrived: SimpleQueue[_Item], why: Why, interval_s: float
) -> Iterator[JobEvent]:
    began, written, text, steps, due = False, 0, "", list[Step](), 0.0
    while True:
        item: _Item | None = None
        with suppress(Empty):
            item = arrived.get(timeout=LOOK_S)
        if not began:
            if item is None and not why():
                continue
            began, config = True, item if isinstance(item, RunConfig) else config
            yield Began(number, config, (), (), "")
        if isinstance(item, Part) and (item.text or item.positions):
            steps.append(part_step(config, item, written, len(text)))
            written, text = written + 1, text + item.text
        ended = _ended(number, config, text, item, why)
        if ended or (steps and time.monotonic() >= due):
            due = time.monotonic() + interval_s
            yield Wrote(number, tuple(steps), text, float("nan"), UNKNOWN, ended is not None)
            steps = []
        if ended:
            yield ended
            return


def _ended(number: int, config: RunConfig, text: str, item: _Item | None, why: Why) -> Ended | None:
    """Return how the run ended; None where it goes on."""
    if isinstance(item, Exception) and not isinstance(item, ServerError | ValueError):
        raise item
    if isinstance(item, Trace):
        return Ended(number, item.status, item.stop_reason, item.error, item)
    if isinstance(item, Exception):
        trace = None if text else failed_trace(config, item)
        return Ended(number, Status.FAILED, StopReason.ERROR, str(item), trace)
    if len(text) > LONGEST * config.max_new_tokens:
        said = f"The server wrote more than the {config.max_new_tokens:,} tokens of max_new_tokens."
        return Ended(number, Status.FAILED, StopReason.ERROR, said)
    reason = why()
    return Ended(number, Status.CANCELLED, reason, "") if reason else None


def _counted(trace: Trace, before: Counters, after: Counters | None) -> Trace:
    """Return a run with what its server counted meanwhile, where that is of this run alone."""
    counts = counts_between(before, after, trace.summary.new_tokens)
    if counts is None:
        return trace
    environment = {**trace.config.environment, COUNTS: WHOLE}
    return with_counts(
        replace(trace, config=replace(trace.config, environment=environment)), counts
    )
