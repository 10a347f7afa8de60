"""Plain values that components of the page draw: a sentence, the result of a check. No gradio."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentencePart:
    """Words of a sentence that are not plain. ``kind``: strong, or the piece of a token; ``lane``
    and ``position`` make it a link to a token."""

    text: str
    kind: str = "strong"
    lane: int | None = None
    position: int | None = None


Sentence = tuple[str | SentencePart, ...]
BREAK = "\n"  # a new line


def plain(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict on a lossless run. ``state``: ok or bad; empty where there is nothing to
    check."""

    state: str = ""
    text: str = ""


UNCHECKED = Check()
