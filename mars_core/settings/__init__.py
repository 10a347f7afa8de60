"""The settings of a run: what a person may say, in whichever way it is said."""

from mars_core.settings.drafts import Drafts, LaneSettings, read_lane, rule_named
from mars_core.settings.kind import CHAIN
from mars_core.settings.setting import given
from mars_core.settings.settings import Settings
from mars_core.settings.table import KINDS, LARGEST_SEED, MOST_REPEATS, PROCESSORS

__all__ = [
    "CHAIN",
    "KINDS",
    "LARGEST_SEED",
    "MOST_REPEATS",
    "PROCESSORS",
    "Drafts",
    "LaneSettings",
    "Settings",
    "given",
    "read_lane",
    "rule_named",
]
