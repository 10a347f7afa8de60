"""The terms of the page (ui/assets/terms.json): one list for the "?" buttons, where a term first
appears, and for the About tab. Every word is ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from mars_core.drafting import DRAFTERS
from ui.kit.assets import asset
from ui.kit.panel import render
from ui.kit.responses import FOLDER, GLOSSARY

_numbers = count(1)  # for ids: a term may be explained several times on one page


class Term(NamedTuple):
    """``symbol`` as on the page, its meaning in a few words, and an explanation of one or two
    sentences."""

    symbol: str
    title: str
    text: str


_DRAFTERS = ", ".join(each.title for each in DRAFTERS.values())
TERMS: Mapping[str, Term] = {
    key: Term(symbol, title, text.format(drafters=_DRAFTERS))
    for key, (symbol, title, text) in json.loads(asset("terms.json")).items()
}


def help_html(key: str) -> str:
    """Return a "?" button that opens the explanation of ``TERMS[key]`` without a script; a new id
    at every call. Raises KeyError."""
    card = f"mars-help-{key.replace('_', '-')}-{next(_numbers)}"
    more = GLOSSARY if (FOLDER / GLOSSARY).exists() else ""
    return render("kit/templates/help.html.jinja", term=TERMS[key], card=card, more=more)
