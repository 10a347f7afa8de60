"""Formats numbers and text for display: three significant digits, always with units.

Text from models and prompts is untrusted: ``displayable`` replaces every character that could hide,
reorder or break the surrounding text.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from mars_core.types import ShiftKind

MISSING = "–"
MINUS = "\N{MINUS SIGN}"
_FEW = 5  # items of a sentence
_BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_VISIBLE_SPACE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})


def number(value: float, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits, without exponents between 0.0001 and 10 million;
    nan is a dash."""
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else f"{MINUS}∞" if value < 0 else "∞"
    if value == 0:
        return "0"
    text = f"{value:#,.{digits}g}"
    if "e" not in text:
        return signless(text.removesuffix("."))
    text = f"{value:.{digits - 1}e}"
    size = int(text[text.index("e") + 1 :])
    return signless(f"{round(value, digits - 1 - size):,.0f}" if digits <= size < 7 else text)


def signless(text: str) -> str:
    """Write the same number with a typographic minus."""
    return text.replace("-", MINUS) if "-" in text else text


def count(value: int) -> str:
    """Write a count, thousands separated; an unknown one (−1) is a dash."""
    return MISSING if value < 0 else f"{value:,}"


def share(value: float) -> str:
    """Write a share of one as a percentage."""
    return MISSING if math.isnan(value) else f"{number(100 * value)} %"


def percent(value: float) -> str:
    """Write a share of one to a tenth of a percent, so that a column can be compared with a
    margin."""
    return MISSING if math.isnan(value) else signless(f"{100 * value:,.1f} %")


def signed(value: float) -> str:
    """Write a signed difference."""
    return MISSING if math.isnan(value) else f"{'+' if value > 0 else ''}{number(value)}"


def points(value: float) -> str:
    """Write a difference of shares, signed, in percentage points."""
    sign = "+" if round(100 * value, 1) > 0 else ""
    return MISSING if math.isnan(value) else signless(f"{sign}{100 * value:,.1f} points")


def probability(p: float) -> str:
    """Write a p value; ``< 0.001`` below that."""
    return MISSING if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def bounded(text: str, kind: ShiftKind) -> str:
    """Mark a formatted TV or KL where it is an upper bound."""
    return f"≤ {text}" if kind is ShiftKind.BOUND and text != MISSING else text


def duration(seconds: float) -> str:
    """Seconds; below one second in ms."""
    if math.isnan(seconds):
        return MISSING
    return f"{number(1000 * seconds)} ms" if abs(seconds) < 0.9995 else f"{number(seconds)} s"


def ratio(value: float) -> str:
    """Write a ratio as ``1.23×``."""
    return MISSING if math.isnan(value) else f"{number(value)}×"


def faster(value: float) -> str:
    """Write a ratio of speeds with its direction: ``1.23× faster``, ``1.02× slower``."""
    text = ratio(max(value, 1 / value if value else math.inf))
    return "equal" if text == ratio(1) else f"{text} {'faster' if value > 1 else 'slower'}"


def about(seconds: float) -> str:
    """Write a rough duration to wait, rounded up: ``a few seconds``, ``about 40 s``, ``about 12
    min``, ``about 2 h 13 min``."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {10 * math.ceil(seconds / 10)} s"
    minutes = math.ceil(seconds / 60)
    if minutes <= 90:
        return f"about {minutes} min"
    return (
        f"about {minutes // 60} h {minutes % 60} min"
        if minutes % 60
        else f"about {minutes // 60} h"
    )


def memory(size: float) -> str:
    """Bytes in the nearest decimal unit."""
    return MISSING if math.isnan(size) else _scaled(size, ("GB", "MB", "kB")) or f"{number(size)} B"


def parameters(size: int) -> str:
    """Write a parameter count: ``7.7 M``, ``4.02 B``."""
    return _scaled(size, ("B", "M", "k")) or count(size)


def _scaled(size: float, units: tuple[str, str, str]) -> str:
    """Write a number in the unit of 1e9, 1e6 or 1e3; empty below."""
    texts = (
        f"{number(size / scale)} {unit}"
        for unit, scale in zip(units, (1e9, 1e6, 1e3), strict=True)
        if size >= 0.9995 * scale
    )
    return next(texts, "")


def plural(amount: int, noun: str) -> str:
    """Write ``1 token``, ``2 tokens``, ``2 passes``, ``2 studies``."""
    if amount != 1 and noun.endswith("y") and noun[-2] not in "aeiou":
        noun = f"{noun[:-1]}ies"
    elif amount != 1:
        noun += "es" if noun.endswith("s") else "s"
    return f"{count(amount)} {noun}"


def first_few(items: Sequence[str]) -> str:
    """Items of a sentence, separated by semicolons; of many the first, and how many more there are."""
    more = [f"{count(len(items) - _FEW)} more"] if len(items) > _FEW else []
    return "; ".join([*items[:_FEW], *more])


def displayable(text: str) -> str:
    """``text`` for running display: line breaks and tabs stay; other control characters, bidi marks
    and lone surrogates are escaped."""
    if text.isprintable():  # control characters, bidi marks and surrogates are not printable
        return text
    return "".join(character if character in "\n\t" else _visible(character) for character in text)


def visible(piece: str) -> str:
    """``piece`` on one line with its white space visible; never empty."""
    text = displayable(piece.translate(_VISIBLE_SPACE))
    if not text.isprintable():  # white space without a symbol
        text = "".join(
            f"⟨U+{ord(character):04X}⟩" if character.isspace() else character for character in text
        )
    return text or "∅"


def shorten(text: str, limit: int = 120) -> str:
    """Write one displayable line of at most ``limit`` characters."""
    line = displayable(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    hidden = character in _BIDI_CONTROLS or unicodedata.category(character) in ("Cc", "Cs")
    return f"⟨U+{code:04X}⟩" if hidden else character
