"""The Drafter protocol: who proposes tokens, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from mars_core.verification import Draft


class Drafter(Protocol):
    """One drafter serves one run. ``ids`` always means prompt and output so far, the last one not yet seen by the target."""

    @property
    def longest(self) -> int:
        """How many tokens of the text it can draft in one step."""

    def prefill(self, ids: Sequence[int]) -> None:
        """Reads the prompt."""

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        """Proposes at most ``limit`` tokens (0 is allowed) to follow ``ids``; u [limit + 1, 3] from the next position on."""

    def commit(self, path: Sequence[int]) -> None:
        """Of the nodes just proposed those of ``path``, from the root (0) on, are in the text; the others never were."""
