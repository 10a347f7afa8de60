"""Applies a rule to a drafted tree: draw first, forgive second. Needs only torch.

``judge`` works on the device and gives one row of numbers a node: the one transfer of a step. ``walk`` follows the kept path through
those rows on the host.
"""

from mars_core.verification.draft import Draft, Node, Verdict, chain_draft, walk
from mars_core.verification.judge import judge

__all__ = ["Draft", "Node", "Verdict", "chain_draft", "judge", "walk"]
