"""Reads the text that a person wrote: files, standard input, fields of several lines.

Only LF and CRLF end a line, because texts contain the other separators of Unicode; a byte-order mark
is no part of the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

MAX_BYTES = 16 * 2**20  # of a file of prompts
_BOM = "\ufeff"


def read_lines(
    file: Path | BinaryIO, most: int = MAX_BYTES, longest: int | None = None
) -> Iterator[str]:
    """Yield the lines, each with its LF, one at a time. ``most``: bytes of the file, ``longest``:
    of a line. Raises ValueError, one sentence with the file and the line."""
    name = file if isinstance(file, Path) else file.name
    longest, size, number = longest or most, 0, 0
    too_large = ValueError(f"{name} has more than {most:,} bytes.")
    try:
        opened: AbstractContextManager[BinaryIO] = (
            file.open("rb") if isinstance(file, Path) else nullcontext(file)
        )
        with opened as stream:
            if isinstance(file, Path) and file.stat().st_size > most:
                raise too_large
            while line := stream.readline(min(longest, most - size) + 1):
                size, number = size + len(line), number + 1
                if size > most:
                    raise too_large
                if len(line) > longest:
                    raise ValueError(
                        f"{name}, line {number}: the line has more than {longest:,} bytes."
                    )
                text = _decoded(line, f"{name}, line {number}")
                yield text.removeprefix(_BOM) if number == 1 else text
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}.") from None


def _decoded(line: bytes, where: str) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: byte {error.start + 1} is not UTF-8; save the file as UTF-8."
        ) from None
    return f"{text[:-2]}\n" if text.endswith("\r\n") else text


def read_text(file: Path | BinaryIO, most: int = MAX_BYTES) -> str:
    """Read the full text. Raises as ``read_lines``."""
    return "".join(read_lines(file, most))


def read_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, and RecursionError for one nested too
    deeply."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def lines_of(text: str) -> list[str]:
    """Return the lines of a field, without their ends."""
    return text.replace("\r\n", "\n").split("\n")
