"""The Drafter protocol: who proposes tokens, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from mars_core.verification import Draft


class Drafter(Protocol):
    """One drafter serves one run at a time. ``ids`` always means prompt and output so far, the last one not yet seen by the target."""

    @property
    def longest(self) -> int:
        """How many tokens of the text it can draft in one step."""

    def prefill(self, ids: Sequence[int]) -> None:
        """Reads the prompt of a new run; what an earlier run left is forgotten."""

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        """Proposes at most ``limit`` tokens (0 is allowed) to follow ``ids``; u [limit + 1, 3] from the next position on."""

    def commit(self, path: Sequence[int]) -> None:
        """Of the nodes just proposed those of ``path``, from the root (0) on, are in the text; the others never were."""


class FixedDrafter(Drafter, Protocol):
    """A drafter whose drafts of full size can be made by the same device operations every time, and so be recorded."""

    @property
    def branches(self) -> bool:
        """Whether it drafts trees."""

    @property
    def ahead(self) -> int:
        """Rows of its own cache that a draft may take beyond the text."""

    def numbers(self, ids: Sequence[int]) -> list[int] | None:
        """What ``fixed`` must be told for a full draft after ``ids``, always as many numbers; None: propose must be asked."""

    def fixed(self, told: Tensor, u: Tensor, width: int) -> Draft:
        """The draft that ``propose`` would make, from ``told`` and u on the device, without the host; may be called several times
        for one draft. ``width``: rows of a cache that may be in use."""

    def commit_fixed(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """As ``commit``, after a draft of ``fixed``; ``ids`` as they were told to ``numbers``."""
