"""Models: the catalog of pairs, loading with every check, and the pool that keeps them. Knows no prompt and no rule."""

from mars_core.models.catalog import CATALOG, PairSpec, custom_pair
from mars_core.models.errors import ModelError
from mars_core.models.loading import Pair
from mars_core.models.memory import Fit
from mars_core.models.pool import ModelPool

__all__ = ["CATALOG", "Fit", "ModelError", "ModelPool", "Pair", "PairSpec", "custom_pair"]
