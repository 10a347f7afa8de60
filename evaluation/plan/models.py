"""What decodes the runs of a study: models of this program, or servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluation.plan.lane import in_range
from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.settings.recorded import model_name
from mars_core.types import SERVER, ModelRef

if TYPE_CHECKING:
    from mars_core.models import Pair

MAX_CONCURRENCY = 1024


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a study: a pair of the catalog by its ``key``, or the user's own."""

    key: str
    target: ModelRef
    draft: ModelRef | None = None
    head: ModelRef | None = None
    classifier: ModelRef | None = None

    def spec(self, catalog: Sequence[PairSpec] = CATALOG) -> PairSpec:
        """Return the pair. Raises ModelError, and ValueError for the model of a server."""
        if self.key == SERVER:
            raise ValueError("This study runs on a server; continue it with: mars eval resume")
        known = next((spec for spec in catalog if spec.key == self.key), None)
        refs = self.target, self.draft, self.head, self.classifier
        target, *others = (ref and model_name(ref) for ref in refs)
        return known or custom_pair(target or "", *others)

    @classmethod
    def of(cls, pair: Pair) -> Models:
        return cls(
            pair.spec.key, pair.target_ref, pair.draft_ref, pair.head_ref, pair.classifier_ref
        )


@dataclass(frozen=True, slots=True)
class Served:
    """``baseline_url``: of the strict lanes, if it is another server.

    ``concurrency``: numbers of requests in flight; the repeats of the study have these values in
    turn. Raises ValueError.
    """

    url: str
    model: str
    baseline_url: str = ""
    baseline_model: str = ""
    concurrency: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for load in self.concurrency:
            in_range("concurrency", load, 1, MAX_CONCURRENCY)

    def of(self, *, baseline: bool) -> tuple[str, str]:
        """URL and model of a lane."""
        return (
            (self.baseline_url, self.baseline_model)
            if baseline and self.baseline_url
            else (self.url, self.model)
        )

    def load(self, repeat: int) -> int:
        """Requests in flight during a repeat."""
        return self.concurrency[repeat % len(self.concurrency)]
