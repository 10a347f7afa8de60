"""Comparisons of verification rules from Python: ``import mars_playground as mars``.

The command ``mars`` imports this package too: what takes seconds to import is imported on first
use.
"""

from typing import TYPE_CHECKING, Any

from mars_core.lazy import imported

if TYPE_CHECKING:
    from mars_core.types import RuleConfig as RuleConfig
    from mars_core.types import TreeShape as TreeShape
    from mars_playground.comparison import Comparison as Comparison
    from mars_playground.comparison import compare as compare

_MODULES = {
    "RuleConfig": "mars_core.types",
    "TreeShape": "mars_core.types",
    "Comparison": "mars_playground.comparison",
    "compare": "mars_playground.comparison",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(imported(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
