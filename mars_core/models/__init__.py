"""Models: the catalog of pairs, loading with every check, and the pool that keeps them. Knows no prompt and no rule.

``Pair`` is imported once it is asked for: what loads a pair needs transformers' models, which take longer to import than all the rest.
"""

from typing import TYPE_CHECKING

from mars_core.models.catalog import CATALOG, PairSpec, custom_pair
from mars_core.models.errors import ModelError
from mars_core.models.memory import Fit
from mars_core.models.pool import ModelPool

if TYPE_CHECKING:
    from mars_core.models.loading import Pair

__all__ = ["CATALOG", "Fit", "ModelError", "ModelPool", "Pair", "PairSpec", "custom_pair"]


def __getattr__(name: str) -> object:
    if name != "Pair":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mars_core.models.loading import Pair

    return Pair
