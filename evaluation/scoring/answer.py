"""Tests whether a text contains the reference answer, for numeric and for verbal answers.

Numbers: the last number of the text must equal the reference's. If either contains ``####``, as in
GSM8K, only the text after the last one counts. Thousands separators, currency and percent signs,
and trailing zeros are ignored. Words: the reference must occur in the text as whole words; case,
width, punctuation and spacing are ignored.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

MARK = "####"  # GSM8K: the answer follows it
THINKS, THOUGHT = "<think>", "</think>"  # around the reasoning of a text
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))")
_DRESS = "$€£¥% \t\n.,:;!?()[]{}*`'\""


def score(text: str, reference: str) -> bool:
    """Return whether ``text`` gives the answer ``reference``, which is not empty."""
    wanted = reference_number(reference)
    return _contains(text, reference) if wanted is None else final_number(text) == wanted


def after_reasoning(text: str) -> str:
    """Return what follows the reasoning of a text; nothing where that does not end."""
    before, _, after = text.rpartition(THOUGHT)
    return "" if THINKS in after and not before else after


def contains(text: str, reference: str) -> bool:
    """Return whether ``reference``, which is not empty, occurs in ``text`` as whole words, or is its
    final number."""
    return score(text, reference) or _contains(text, reference)


def reference_number(reference: str) -> Decimal | None:
    """Return the number that a reference is, or that follows its last ``####``; None if it is not a
    number."""
    if MARK in reference:
        return final_number(reference)
    bare = _plain_signs(reference).strip(_DRESS)
    match = _NUMBER.match(bare)
    return _value(bare) if match and match.end() == len(bare) and bare else None


def final_number(text: str) -> Decimal | None:
    """Return the last number of a text, or of what follows its last ``####``; None where there is
    none."""
    numbers = [
        match.group()
        for match in _NUMBER.finditer(_plain_signs(text.rpartition(MARK)[2]))
        if match.group()
    ]
    return _value(numbers[-1]) if numbers else None


def _plain_signs(text: str) -> str:
    """Return full-width digits and typographic minus signs as ASCII ones; a currency sign between
    sign and digits is removed."""
    text = unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")
    return re.sub(r"[$€£¥]", "", text)


def _value(number: str) -> Decimal:
    return Decimal(number.replace(",", ""))


def _contains(text: str, reference: str) -> bool:
    wanted, actual = _words(reference), _words(text)
    if not wanted:  # only punctuation
        return reference.strip() in text
    # Scripts without spaces between words (Chinese, Japanese, Thai …) have letters of category Lo
    # and no word boundaries.
    unspaced = any(unicodedata.category(letter) == "Lo" for letter in wanted)
    return f" {wanted} " in f" {actual} " or (unspaced and wanted in actual)


def _words(text: str) -> str:
    """Return lower-case words separated by single spaces."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
