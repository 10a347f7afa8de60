"""Comparisons of verification rules from Python: ``import mars_playground as mars``."""

from mars_core.types import RuleConfig as RuleConfig
from mars_core.types import TreeShape as TreeShape
from mars_playground.comparison import Comparison as Comparison
from mars_playground.comparison import compare as compare
