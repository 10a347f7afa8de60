"""Items, each a prompt with its references, and the suite of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that an answer may call; ``required`` are some of its ``arguments``."""

    name: str
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One conversation: the user's turns in order, and the right answer, if known.

    ``references``: one per turn for several turns with a reference each; otherwise alternatives.
    ``template``: prompts that were made of one text have the same. ``tests``: Python assertions,
    for code only. ``metrics``: if they differ from the suite's, as in
    a mixed file. ``tools``: the last answer must call some of them.
    """

    id: str
    turns: tuple[str, ...]
    references: tuple[str, ...] = ()
    category: str = ""
    tests: str = ""
    metrics: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    template: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Items that are reported as one group. ``sha256``: of the file, empty for a built-in suite.

    ``metrics``: names of evaluation.scoring, the first is the main one; empty: not scored. In a
    mixed suite: those of all items.
    """

    name: str
    items: tuple[Item, ...]
    source: str = ""  # path or built-in name, for display
    sha256: str = ""
    metrics: tuple[str, ...] = ()
