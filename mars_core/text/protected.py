"""The ids of protected tokens, which no rule relaxes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import translate

from transformers import PreTrainedTokenizerBase

from mars_core.panics import contained
from mars_core.rules.base import special_ids
from mars_core.text.detokenize import Pieces
from mars_core.types import SPECIAL

_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e«»"
_PATTERNS = {"digits": "*[0-9]*", "quotes": f"*[{_QUOTES}]*"}
_IDS = re.compile(r"\[\d{1,9}(, *\d{1,9})*\]")


@contained()
def protected_ids(
    tokenizer: PreTrainedTokenizerBase,
    pieces: Pieces,
    ends: Collection[int],
    size: int,
    protect: Sequence[str],
) -> frozenset[int]:
    """Return ids below ``size`` that ``Processors.protect`` names. ``ends``: the ids that end an
    answer."""
    ids: set[int] = set()
    for each in protect:
        if each == SPECIAL:
            ids |= {*ends, *special_ids(tokenizer)}
        elif _IDS.fullmatch(each):
            ids |= {*map(int, re.findall(r"\d+", each))}
        else:
            matches = re.compile(translate(_PATTERNS.get(each, each))).match
            named = {token for token in range(size) if matches(pieces[token].strip())}
            if each in _PATTERNS:  # the label of a lone byte is none of its characters
                named = {token for token in named if matches(str(tokenizer.decode([token])))}
            ids |= named
    return frozenset(token for token in ids if 0 <= token < size)
