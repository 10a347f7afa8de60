"""No drafts: the target decodes alone."""

from mars_core.drafting.base import DrafterKind, TextDrafter
from mars_core.rules.base import PLAIN

NONE = DrafterKind(
    name=PLAIN,
    title="none",
    drafts="no drafts",
    summary="The target generates every token itself.",
    source="plain decoding",
    build=lambda _: TextDrafter(0),
    chains=False,
)
