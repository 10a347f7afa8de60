"""The result of a step of the engine, in token ids."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from mars_core.verification import StepVerdict


class InvalidLogitsError(RuntimeError):
    """The target's logits contain NaN or infinity."""

    def __init__(self) -> None:
        super().__init__(
            "The target's logits contain values that are not numbers (NaN or infinity), or every "
            "token is banned; try another dtype."
        )


@dataclass(frozen=True, slots=True)
class RawStep:
    """One step of a text in token ids. ``emitted`` is cut after an id that ends the text (``eos``
    is then true); ``verdict.path`` is not. The times are those of the step of all texts."""

    verdict: StepVerdict
    emitted: tuple[int, ...]
    recovers: bool  # the last emitted token is not drafted
    eos: bool
    draft_s: float
    verify_s: float
    set_up_s: float  # spent on captures, not included in the other two

    @staticmethod
    def of(
        verdict: StepVerdict, ends: Container[int], times: tuple[float, float, float]
    ) -> RawStep:
        """Return the step of an accepted path; ``ends``: the ids that end a text; ``times``: the
        last three fields."""
        nodes, path = verdict.nodes, verdict.path
        ids, emit = nodes.column("id"), nodes.column("emit")
        emitted = (*(int(ids[node]) for node in path[1:]), int(emit[path[-1]]))
        end = next((at for at, token in enumerate(emitted, start=1) if token in ends), None)
        recovers = end is None or end == len(emitted)
        return RawStep(verdict, emitted[:end], recovers, end is not None, *times)
