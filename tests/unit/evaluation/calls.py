"""Commands as they are typed, and fields of values."""

from __future__ import annotations

from mars_playground.__main__ import main


def mars(line: str, *words: str) -> int:
    """The exit status of ``mars LINE``; ``words`` are further arguments, which may have spaces."""
    return main([*line.split(), *words])


def expect(value: object, **fields: object) -> None:
    """``value`` has these fields."""
    assert {name: getattr(value, name) for name in fields} == fields
