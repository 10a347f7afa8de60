"""The kinds of settings: how a value of each is read from text or JSON, written, and given on the
command line. A value that cannot be is refused in one sentence with name, value and range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import Any, ClassVar

from mars_core.numbers import (
    LARGEST_INTEGER,
    MOST,
    quoted,
    read_bias,
    read_integer,
    read_number,
    read_numbers,
)
from mars_core.rules import PLAIN
from mars_core.types import TreeShape, number_text

CHAIN = "chain"  # instead of a tree
_WORDS = {"on": True, "true": True, "off": False, "false": False}


@dataclass(frozen=True)
class SettingKind:
    """``help``: one sentence; ``metavar``: of its option on the command line; ``option``: that
    option's name, where it is not the setting's; ``section``: of a form, which has no field of those
    without one; ``title``: in it, where it is not the name. ``default``: as it is declared."""

    type: ClassVar[Any] = str  # as an endpoint declares it
    help: str
    default: Any = field(default=None, kw_only=True)
    metavar: str | None = field(default=None, kw_only=True)
    option: str = field(default="", kw_only=True)
    section: str = field(default="", kw_only=True)
    title: str = field(default="", kw_only=True)

    def heading(self, name: str) -> str:
        """Return how a form and a table of settings call it."""
        return self.title or name.replace("_", " ").capitalize()

    def read(self, value: Any, name: str) -> Any:
        """Return a value of a setting, read from text or JSON, or as it is. Raises ValueError."""
        raise NotImplementedError

    def plain(self, value: Any) -> Any:
        """Return the value as JSON has it."""
        return value

    def text(self, value: Any) -> str:
        """Return the value as a form and an address have it."""
        return str(self.plain(value))

    def flag(self, name: str) -> str:
        """Return the option of the command line."""
        negation = "no-" if isinstance(self, Flag) and self.default else ""
        return f"--{negation}{self.option or name.replace('_', '-')}"

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of argparse, which leaves the text as it is."""
        return {"metavar": self.metavar}


@dataclass(frozen=True)
class Text(SettingKind):
    choices: tuple[str, ...] = ()

    def read(self, value: Any, name: str) -> str:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            known = f"one of {', '.join(self.choices)}" if self.choices else "text"
            raise ValueError(f"{name} is {quoted(value)}; it must be {known}.")
        return value

    def keywords(self) -> dict[str, Any]:
        return {"choices": self.choices} if self.choices else super().keywords()


@dataclass(frozen=True)
class Number(SettingKind):
    low: float = -MOST
    high: float = MOST
    step: float = 1  # of a field of the page

    type: ClassVar[Any] = float

    def read(self, value: Any, name: str) -> float:
        return read_number(value, name, self.low, self.high)

    def text(self, value: Any) -> str:
        return number_text(value)


@dataclass(frozen=True)
class Whole(Number):
    high: float = LARGEST_INTEGER

    type: ClassVar[Any] = int

    def read(self, value: Any, name: str) -> int:
        return read_integer(value, name, int(self.low), int(self.high))

    def text(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Numbers(SettingKind):
    """Numbers with commas between them, or as ``first:last:step``; ``least``: how many."""

    each: SettingKind
    least: int = 1

    def read(self, value: Any, name: str) -> tuple[Any, ...]:
        if value == "" and not self.least:
            return ()
        numbers = value if isinstance(value, list | tuple) else read_numbers(str(value), name)
        return tuple(self.each.read(number, name) for number in numbers)

    def text(self, value: Any) -> str:
        return ", ".join(map(self.each.text, value))


@dataclass(frozen=True)
class Flag(SettingKind):
    """On or off. The option of the command line has a word only where the default is None."""

    type: ClassVar[Any] = bool

    def read(self, value: Any, name: str) -> bool:
        known = _WORDS.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(known, bool):
            raise ValueError(f"{name} is {quoted(value)}; it must be true or false (on or off).")
        return known

    def text(self, value: Any) -> str:
        return "on" if value else "off"

    def keywords(self) -> dict[str, Any]:
        if self.default is None:
            return {"choices": ("on", "off")}
        return {"action": "store_const", "const": not self.default}


@dataclass(frozen=True)
class Words(SettingKind):
    """Texts; one stands for a list of one."""

    most: int = 1000
    longest: int = 100_000  # characters
    what: str = "texts"
    least: int = 1  # characters

    type: ClassVar[Any] = list[str]

    def read(self, value: Any, name: str) -> tuple[Any, ...]:
        items = self.items(value)
        if not isinstance(items, list | tuple) or len(items) > self.most:
            raise ValueError(
                f"{name} is {quoted(value)}; it must be a list of at most {self.most:,} {self.what}."
            )
        return tuple(self.item(each, name) for each in items)

    def items(self, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def item(self, value: Any, name: str) -> Any:
        if not isinstance(value, str) or not self.least <= len(value) <= self.longest:
            raise ValueError(
                f"A value of {name} is {quoted(value)}; it must be a text of {self.least} to "
                f"{self.longest:,} characters."
            )
        return value

    def plain(self, value: Any) -> Any:
        return list(value)

    def text(self, value: Any) -> str:
        """Write one a line."""
        return "\n".join(self.plain(value))

    def keywords(self) -> dict[str, Any]:
        return {"action": "append", "metavar": self.metavar}


@dataclass(frozen=True)
class Names(SettingKind):
    """Words with commas between them."""

    def read(self, value: Any, name: str) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [each.strip() for each in value.split(",") if each.strip()]
        return Words("").read(value, name)

    def text(self, value: Any) -> str:
        return ", ".join(value)


@dataclass(frozen=True)
class Protected(Words):
    """Words, or the word none for no word."""

    def items(self, value: Any) -> Any:
        items = super().items(value)
        return [] if items in ([PLAIN], (PLAIN,)) else items

    def plain(self, value: Any) -> Any:
        return [*value] or [PLAIN]


@dataclass(frozen=True)
class Biases(Words):
    """``WORD=VALUE``, pairs, or an object of words and values."""

    def items(self, value: Any) -> Any:
        return tuple(value.items()) if isinstance(value, Mapping) else super().items(value)

    def item(self, value: Any, name: str) -> tuple[str, float]:
        pair = value if isinstance(value, str) else "=".join(map(str, value))
        word, bias = read_bias(pair, name)
        if bias != -math.inf and not LEAST_BIAS <= bias <= MOST_BIAS:
            raise ValueError(
                f"The bias of {quoted(word)} is {number_text(bias)}; it must be {LEAST_BIAS:g} to "
                f"{MOST_BIAS}, or -inf, which bans the word."
            )
        return word, bias

    def plain(self, value: Any) -> Any:
        return [f"{word}={bias}" for word, bias in value]


LEAST_BIAS, MOST_BIAS = -1e30, 1000  # 64 of the least are finite in float32
_SIZES = TreeShape(256, 32, 64)  # the largest


@dataclass(frozen=True)
class Tree(SettingKind):
    """Tokens, depth and top-k between / or commas; CHAIN; or empty."""

    def read(self, value: Any, name: str) -> TreeShape | str:
        if isinstance(value, TreeShape):
            value = self.text(value)
        if value in ("", CHAIN):
            return str(value)
        names = [each.name for each in fields(TreeShape)]
        sizes = value[:80].replace(",", "/").split("/") if isinstance(value, str) else []
        if len(sizes) != len(names):
            raise ValueError(
                f"{name} is {quoted(value)}; it takes tokens/depth/top-k, e.g. 59/8/10, or {CHAIN}."
            )
        parts = zip(sizes, names, astuple(_SIZES), strict=True)
        return TreeShape(
            *(read_integer(size, f"{each} of {name}", 1, most) for size, each, most in parts)
        )

    def plain(self, value: Any) -> Any:
        return "/".join(map(str, astuple(value))) if isinstance(value, TreeShape) else value


@dataclass(frozen=True)
class TokenIds(Words):
    """Ids of tokens."""

    most: int = 100_000
    what: str = "token ids"

    type: ClassVar[Any] = list[int]

    def item(self, value: Any, name: str) -> int:
        return read_integer(value, f"An id of {name}", 0)
