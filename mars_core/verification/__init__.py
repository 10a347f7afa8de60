"""Applies a rule to a draft: the target's draw first, then the relaxation.

``decide`` runs on the device and returns one row of numbers, the only transfer of a step. ``walk``
reads it on the host and follows the accepted path.
"""

from mars_core.rules.expression import Span
from mars_core.verification.case import Known, Terms
from mars_core.verification.columns import RowToken
from mars_core.verification.decide import decide
from mars_core.verification.draft import Draft, ancestors, certain, chain_draft
from mars_core.verification.state import RunState, received_states
from mars_core.verification.verdict import StepVerdict, walk

__all__ = [
    "Draft",
    "Known",
    "RowToken",
    "RunState",
    "Span",
    "StepVerdict",
    "Terms",
    "ancestors",
    "certain",
    "chain_draft",
    "decide",
    "received_states",
    "walk",
]
