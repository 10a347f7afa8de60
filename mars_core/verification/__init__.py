"""Applies a rule to a draft: the target's draw first, then the relaxation.

``judge`` runs on the device and returns one row of numbers, the only transfer of a step. ``walk``
reads it on the host and follows the accepted path.
"""

from mars_core.verification.columns import JudgedToken
from mars_core.verification.draft import Draft, ancestors, certain, chain_draft
from mars_core.verification.judge import judge
from mars_core.verification.state import RunState, Span, received_states
from mars_core.verification.verdict import StepVerdict, walk

__all__ = [
    "Draft",
    "JudgedToken",
    "RunState",
    "Span",
    "StepVerdict",
    "ancestors",
    "certain",
    "chain_draft",
    "judge",
    "received_states",
    "walk",
]
