"""Applies a rule to a drafted tree: the target's own draw first, then the relaxation.

``judge`` works on the device and answers with one row of numbers, the one transfer of a step. ``walk`` reads it on the host and follows
the kept path.
"""

from mars_core.verification.draft import Draft, ancestors, certain, chain_draft
from mars_core.verification.judge import judge
from mars_core.verification.verdict import Node, Values, Verdict, walk

__all__ = ["Draft", "Node", "Values", "Verdict", "ancestors", "certain", "chain_draft", "judge", "walk"]
