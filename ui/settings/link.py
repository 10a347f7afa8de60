"""Settings as an address, such as ``?prompt=Hello&rule=strict&rule=mars(theta=0.9)&k=7``, with the
names of the table of settings. Everything in an address is hostile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mars_core.models import CUSTOM
from mars_core.settings import KINDS, read_lane
from mars_core.settings.drafts import EARLIER, renamed
from mars_core.settings.links import NAMES as _NAMES
from mars_core.settings.setting import Words
from mars_core.text.files import lines_of
from ui.settings.values import as_text, field_values, lane_values

NAMES = ("prompt", "rule", *_NAMES, *EARLIER)


def read_link(words: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Read the values of the panel, with those that are none left out, and one sentence on the
    first of these. ``words``: texts by name, and ``rules``, a list."""
    values, wrong = dict[str, Any](), list[str]()
    texts = renamed({name: text for name in NAMES[2:] if (text := as_text(words.get(name)))})
    for name, text in texts.items():
        kind = KINDS[name]
        lines = [*filter(None, lines_of(text))] if isinstance(kind, Words) else text
        try:
            values |= field_values(name, text if text == CUSTOM else kind.read(lines, name))
        except ValueError as error:
            wrong.append(str(error))
    rules = words.get("rules")
    try:
        lanes = [lane_values(read_lane(text)) for text in rules] if isinstance(rules, list) else []
        values |= {"lanes": lanes} if lanes else {}
    except ValueError as error:
        wrong.append(str(error))
    return values | ({"pair": CUSTOM} if values.get("target") else {}), wrong[0] if wrong else ""
