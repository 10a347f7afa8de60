"""Settings as the names and texts of an address of the page."""

from __future__ import annotations

from typing import Any

from mars_core.settings.drafts import Drafts
from mars_core.settings.setting import given, kinds
from mars_core.settings.settings import Settings
from mars_core.settings.table import KINDS
from mars_core.types import SERVER

# a link does not choose whom the page asks
_NOT_THERE = ("prompt", "rules", "prefix", "server", "server_model", "device", "dtype", "graphs")
NAMES = tuple(name for name in KINDS if name not in _NOT_THERE)
# whose defaults on the page are those of the pair, or of a tab
_ALWAYS = (*kinds(Drafts), "pair", "temperature", "max_new_tokens", "seed", "repeats")


def address_words(settings: Settings) -> dict[str, Any]:
    """Return the texts by name; what has its default is left out, and so is what no address holds."""
    changed = given(settings)
    texts = {
        name: KINDS[name].text(value)
        for name in NAMES
        if (name in changed or name in _ALWAYS) and (value := getattr(settings, name)) is not None
    }
    rules = [lane.text for lane in settings.rules if lane.rule.name != SERVER]
    return {"prompt": settings.prompt, "rule": rules} | {n: t for n, t in texts.items() if t}
