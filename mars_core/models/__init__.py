"""Models: the catalog of pairs, loading with all checks, and the pool of loaded pairs.

``Pair`` is imported on first access: its module imports transformers' models, which takes longer
than everything else.
"""

from typing import TYPE_CHECKING

from mars_core.models.catalog import BUNDLED_PAIR, CATALOG, CUSTOM, PairSpec, custom_pair
from mars_core.models.errors import ModelError
from mars_core.models.memory import MemoryFit
from mars_core.models.pool import ModelPool

if TYPE_CHECKING:
    from mars_core.models.loading import Pair

__all__ = [
    "BUNDLED_PAIR",
    "CATALOG",
    "CUSTOM",
    "MemoryFit",
    "ModelError",
    "ModelPool",
    "Pair",
    "PairSpec",
    "custom_pair",
]


def __getattr__(name: str) -> object:
    if name != "Pair":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mars_core.models.loading import Pair

    return Pair
