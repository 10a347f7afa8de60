"""The answers of one lane at one temperature, as values; what the shapes of other tools are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from evaluation.study.plan import Plan, Task
from evaluation.study.result import Result
from evaluation.suites.item import Item
from storage import RunRecord


@dataclass(frozen=True, slots=True)
class Answer:
    """One item with one seed. ``runs``, ``texts`` (without a stop string) and ``lengths``: one a turn; lengths are tokens a step."""

    task: Task
    result: Result
    runs: tuple[RunRecord, ...]
    texts: tuple[str, ...]
    lengths: tuple[tuple[int, ...], ...]
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class Answered:
    """All completed answers of a lane at a temperature. ``gone``: answers whose runs were deleted since."""

    plan: Plan
    lane: int
    temperature: float
    name: str
    answers: tuple[Answer, ...]
    failed: int
    gone: int

    @property
    def environment(self) -> dict[str, str]:
        """Of the first answer."""
        return dict(self.answers[0].runs[0].config.environment) if self.answers else {}

    @property
    def saved_at(self) -> datetime:
        """When the last answer was saved."""
        return max((answer.saved_at for answer in self.answers), default=datetime.fromtimestamp(0, UTC))

    @property
    def time(self) -> str:
        """As it stands in the names of lm-eval's files."""
        return self.saved_at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds").replace(":", "-")

    def items(self, suite: int) -> Iterator[tuple[int, Item, tuple[Answer, ...]]]:
        """Number, item and answers, by seed, of every item of a suite that was answered."""
        by_item: dict[int, list[Answer]] = {}
        for answer in self.answers:
            if answer.task.suite == suite:
                by_item.setdefault(answer.task.item, []).append(answer)
        for number, answers in sorted(by_item.items()):
            item = self.plan.suites[suite].items[number]
            yield number, item, tuple(sorted(answers, key=lambda answer: answer.task.repeat))
