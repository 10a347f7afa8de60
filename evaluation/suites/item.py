"""What is asked and what would be right: items, and the suite that they belong to. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Item:
    """One conversation: the user's turns in order, and what the right answer is, where there is one.

    ``references``: as the file has them; what they mean is the metric's. ``tests``: Python that asserts, for code only.
    """

    id: str
    turns: tuple[str, ...]
    references: tuple[str, ...] = ()
    category: str = ""
    tests: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Items that are reported together. ``sha256``: of the file, empty for a built-in suite."""

    name: str
    items: tuple[Item, ...]
    source: str = ""  # path or built-in name, for people
    sha256: str = ""
    metrics: tuple[str, ...] = field(
        default=()
    )  # names of evaluation.scoring, the first is the main one; empty: nothing to score
