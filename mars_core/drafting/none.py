"""No drafts: the target decodes alone."""

from mars_core.drafting.base import Drafter, DrafterKind
from mars_core.rules.base import PLAIN

NONE = DrafterKind(
    name=PLAIN,
    title="none",
    drafts="no drafts",
    summary="The target generates every token itself.",
    source="plain decoding",
    build=lambda _: Drafter(0),
    chains=False,
)
