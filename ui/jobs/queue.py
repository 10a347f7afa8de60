"""The queue of jobs: one runs at a time. Order among owners, expected waiting time, and refusals
when the queue is full; and how long the latest runs of a target took, for estimates.

Safe between threads: each waiter polls its ticket in its thread.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, NamedTuple

from display.format import about, plural
from mars_core.types import Status, Trace
from ui.public.limits import PRIVATE_LIMITS, Limits

# Gradio holds up none of the events that compute: they wait for their turn here.
COMPUTES: Mapping[str, Any] = {"concurrency_id": "accelerator", "concurrency_limit": None}
HOUR_S = 3600.0
PACE_S = 0.02  # a token, before anything was measured
NEWEST = 0.3  # weight of the latest ticket in the mean pace
MOST_PASSED = 20
POLL_S = 0.1  # between two looks for a stop while waiting


@dataclass(eq=False, slots=True)
class Ticket:
    """A slot of the queue, used as a context manager: on exit the slot is free for the next
    one."""

    queue: Queue
    owner: str
    runs: int
    tokens: int  # that were requested
    place: int  # the ticket with the least is next, of several the first
    began: float | None = None  # when its turn came

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.leave(self)

    def ready(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Return whether it is this one's turn; waits up to ``seconds`` for it, and no longer once
        ``stopped``."""
        ends = time.monotonic() + seconds
        with self.queue.changed:
            while (
                self is not self.queue.current
                and not stopped()
                and (left := ends - time.monotonic()) > 0
            ):
                self.queue.changed.wait(min(left, POLL_S))
            return self is self.queue.current

    def refund(self) -> None:
        """Take back runs of which nothing was computed: they do not count against the hour."""
        self.tokens = 0
        with self.queue.changed, suppress(ValueError):
            self.queue.begun.remove((self.began or 0.0, self.owner, self.runs))

    def message(self) -> str:
        before, seconds = self.queue.before(self)
        return f"Waiting: {before:,} before you; {about(seconds)}."


@dataclass(eq=False, slots=True)
class Queue:
    """First come, first served among owners: with each turn the places move on by one, and a ticket
    stands more than MOST_PASSED places behind the one of its owner before it, so that up to so many
    of others who come later are served first. Bounded where ``limits.waiting`` says so, and then an
    owner may have one ticket that waits. ``limits.runs_an_hour`` counts the runs whose turn came.
    ``clock`` in seconds."""

    limits: Limits = PRIVATE_LIMITS
    clock: Callable[[], float] = time.monotonic
    pace_s: float = PACE_S
    current: Ticket | None = None
    _waiting: list[Ticket] = field(default_factory=list)  # in order of arrival
    _place: int = 0  # of who comes now
    _latest: dict[str, int] = field(default_factory=dict)  # owner → place after the latest ticket
    begun: list[tuple[float, str, int]] = field(
        default_factory=list
    )  # when, owner, runs; of the last hour, oldest first
    _closed: bool = False
    changed: Condition = field(default_factory=Condition)

    @property
    def running(self) -> int:
        return int(self.current is not None)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def ticket(self, owner: str, *, runs: int, tokens: int) -> Ticket:
        """Take a slot at the end of the queue for ``runs`` of ``tokens`` in all. Raises ValueError
        with the time to come back."""
        with self.changed:
            self._check(owner, runs)
            place = max(self._place, self._latest.get(owner, 0))
            ticket = Ticket(self, owner, runs, tokens, place)
            self._latest[owner] = place + MOST_PASSED + 1
            self._waiting.append(ticket)
            self._advance()
            return ticket

    def leave(self, ticket: Ticket) -> None:
        """End its turn or its waiting."""
        with self.changed:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if ticket is self.current:
                self.current = None
                if ticket.began is not None and ticket.tokens:
                    pace = (self.clock() - ticket.began) / ticket.tokens
                    self.pace_s += NEWEST * (pace - self.pace_s)
            self._advance()
            self.changed.notify_all()

    def close(self) -> None:
        """Refuses new tickets from now on."""
        with self.changed:
            self._closed = True

    def empty(self, seconds: float) -> bool:
        """Return whether nobody runs or waits; waits up to ``seconds`` for it."""
        with self.changed:
            return self.changed.wait_for(lambda: not self.current and not self._waiting, seconds)

    def before(self, ticket: Ticket) -> tuple[int, float]:
        """Return how many tickets come before, the running one included, and the seconds until they
        are through."""
        with self.changed:
            order = self._order()
            first = order[: order.index(ticket)] if ticket in order else []
            return len(first) + self.running, self._seconds(first)

    def _check(self, owner: str, runs: int) -> None:
        if self._closed:
            raise ValueError("This page is being shut down; try again in a minute.")
        most = self.limits.waiting
        if most is not None and any(ticket.owner == owner for ticket in self._waiting):
            raise ValueError(
                "Another run of yours is waiting for its turn already; stop it, or wait until it "
                "has begun."
            )
        if most is not None and len(self._waiting) >= most and self.current:
            others = f"{plural(len(self._waiting), 'visitor')} {'is' if len(self._waiting) == 1 else 'are'}"
            raise ValueError(
                f"{others} waiting already; try again in {about(self._seconds(self._waiting))}."
            )
        hourly = self.limits.runs_an_hour
        if hourly is None:
            return
        if runs > hourly:
            raise ValueError(
                f"These are {runs:,} runs; on this public page a visitor has "
                f"{plural(hourly, 'run')} an hour."
            )
        self.begun = [entry for entry in self.begun if entry[0] > self.clock() - HOUR_S]
        granted = [(when, count) for when, other, count in self.begun if other == owner]
        taken, free = sum(count for _, count in granted), None
        for when, count in granted:
            if taken + runs <= hourly:
                break
            taken, free = taken - count, when
        if free is not None:
            wait = about(free + HOUR_S - self.clock())
            raise ValueError(
                f"On this public page a visitor has {plural(hourly, 'run')} an hour; try again in "
                f"{wait}."
            )

    def _advance(self) -> None:
        """Give the next one its turn, if the slot is free."""
        if self.current is None and self._waiting:
            ticket = self.current = self._order()[0]
            self._waiting.remove(ticket)
            self._place = max(self._place + 1, ticket.place)
            self._latest = {
                owner: place for owner, place in self._latest.items() if place > self._place
            }
            ticket.began = self.clock()
            if self.limits.runs_an_hour is not None:
                self.begun.append((ticket.began, ticket.owner, ticket.runs))
            self.changed.notify_all()

    def _order(self) -> list[Ticket]:
        """Return those that wait, the next one first."""
        return sorted(self._waiting, key=lambda ticket: ticket.place)  # else by arrival

    def _seconds(self, tickets: list[Ticket]) -> float:
        """Return the time until the running one and all of these are through."""
        left = 0.0
        if self.current is not None and self.current.began is not None:
            left = max(0.0, self._expected(self.current) - (self.clock() - self.current.began))
        return left + sum(map(self._expected, tickets))

    def _expected(self, ticket: Ticket) -> float:
        seconds = ticket.tokens * self.pace_s
        return seconds if self.limits.seconds is None else min(seconds, self.limits.seconds)


LATEST = 20  # runs of a target


class Pace(NamedTuple):
    """Seconds per token that a run may write. ``shortest``: of the run with the least, which may
    have ended early; ``longest``: where no run ends early."""

    runs: int
    shortest: float
    longest: float


class Paces:
    """Of runs that ended by themselves or at their limit, by the name of the target."""

    def __init__(self) -> None:
        self._latest: defaultdict[str, deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=LATEST)
        )

    def observe(self, trace: Trace) -> None:
        config, summary = trace.config, trace.summary
        if trace.status is Status.COMPLETED and summary.new_tokens and summary.wall_s < math.inf:
            pace = (summary.wall_s / config.max_new_tokens, summary.wall_s / summary.new_tokens)
            self._latest[config.target.name].append(pace)

    def of(self, target: str) -> Pace | None:
        """Return the pace; None before the first run."""
        paces = tuple(self._latest.get(target, ()))
        if not paces:
            return None
        return Pace(len(paces), min(low for low, _ in paces), max(high for _, high in paces))
