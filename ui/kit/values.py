"""Plain values that components of the page draw: a sentence, the result of a check. No gradio."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentencePart:
    """A piece of a sentence. ``kind``: plain, strong, piece or break; ``lane`` and ``position``
    make it a link to a token."""

    text: str
    kind: str = "plain"
    lane: int | None = None
    position: int | None = None


Sentence = tuple[SentencePart, ...]
BREAK = SentencePart("\n", "break")  # a new line


def plain(sentence: Sentence) -> str:
    return "".join(part.text for part in sentence)


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict on a lossless run. ``state``: ok or bad; empty where there is nothing to
    check."""

    state: str = ""
    text: str = ""


UNCHECKED = Check()
