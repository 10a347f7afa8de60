"""Items, each a prompt with its references, and the suite of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """One conversation: the user's turns in order, and what the right answer is, where there is one.

    ``references``: as many as turns, where there are several turns and each has its own; otherwise any of them is right (or good).
    ``tests``: Python that asserts, for code only. ``metrics``: where they are not the suite's, as in a file of several kinds.
    """

    id: str
    turns: tuple[str, ...]
    references: tuple[str, ...] = ()
    category: str = ""
    tests: str = ""
    metrics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", tuple(self.metrics))  # a list, where it comes out of the store


@dataclass(frozen=True, slots=True)
class Suite:
    """Items that are reported as one group. ``sha256``: of the file, empty for a built-in suite.

    ``metrics``: names of evaluation.scoring, the first is the main one; empty: nothing to score. Of a mixed suite: all of its items'.
    """

    name: str
    items: tuple[Item, ...]
    source: str = ""  # path or built-in name, for people
    sha256: str = ""
    metrics: tuple[str, ...] = ()
