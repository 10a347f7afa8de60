"""Temperature 0 in rounds: all prompts, one at a time and several at once, and again after all other
requests, for faults that need load or time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from display.format import count, plural
from evaluation.lossless.values import at_once, complete
from evaluation.progress import show_progress
from evaluation.served.answer import Answer
from evaluation.served.client import Client, Prompt

TOKENS = 64  # of every answer


class Difference(NamedTuple):
    """Of two texts: how much more probable the expected token is (nats; at least ``gap``, nan if
    the server does not tell), and where."""

    gap: float
    where: str


class Round(NamedTuple):
    """``in_flight`` requests at once, after ``sent`` others. ``found``: what differs, by answer."""

    in_flight: int
    sent: int
    found: list[Difference | None]


class Rounds(list[Round]):
    """``judge``: of the number of a prompt and an answer to it."""

    def __init__(
        self,
        client: Client,
        prompts: Sequence[Prompt],
        judge: Callable[[int, Answer], Difference | None],
    ) -> None:
        self._client, self._prompts, self._judge = client, prompts, judge

    def ask(self, in_flight: int, *, titled: bool = True) -> list[Answer]:
        """Ask all prompts. Raises ServerError."""
        sent, server = self._client.sent, self._client.server
        answers = at_once(
            f"Temperature 0, {server.role}, {plural(in_flight, 'request')} at once" * titled,
            lambda prompt: complete(self._client, prompt, TOKENS, 0.0, logprobs=5),
            self._prompts,
            in_flight,
        )
        title = "Temperature 0, comparison" * titled
        found = at_once(title, lambda each: self._judge(*each), [*enumerate(answers)], 1)
        self.append(Round(in_flight, sent, found))
        return answers

    def repeat(self, in_flight: int, minutes: float) -> None:
        """Ask all prompts so long, several and one at a time, and one at a time in the end."""
        end = time.monotonic() + 60 * minutes
        while (left := end - time.monotonic()) > 0:
            show_progress(f"Temperature 0, round {len(self) + 1}, {left:,.0f} s left")
            self.ask(in_flight, titled=False)
            self.ask(1, titled=False)
        self.ask(1)

    def asked(self) -> str:
        """Return how often all prompts were asked, how many at once, and for how long."""
        most, last = max(row.in_flight for row in self), self[-1].sent
        return (
            f"{plural(len(self), 'round')} with up to {plural(most, 'request')} in flight, the last "
            f"after {plural(last, 'request')}"
        )

    def when(self, tie: float = 0.0) -> str:
        """Return which answers differ by more than ``tie``, by requests in flight and by time;
        empty where none does."""
        wrong = [[each is not None and not each.gap <= tie for each in row.found] for row in self]
        if not any(map(any, wrong)):
            return ""
        text = []
        for in_flight in sorted({row.in_flight for row in self}):
            rows = [bad for row, bad in zip(self, wrong, strict=True) if row.in_flight == in_flight]
            known = f"{count(sum(map(sum, rows)))} of {count(sum(map(len, rows)))}"
            text.append(f"{known} with {plural(in_flight, 'request')} in flight")
        first = next(at for at, bad in enumerate(wrong) if any(bad))
        begun = self[first].sent + wrong[first].index(True)
        alone = [any(bad) for row, bad in zip(self, wrong, strict=True) if row.in_flight == 1]
        kind = "from the beginning"
        if first and not any(alone):
            kind = "only with several requests in flight"
        elif first:
            kind = f"first seen after {plural(begun, 'request')}"
        return f"Differing answers: {', '.join(text)}; {kind}."
