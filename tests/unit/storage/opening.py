"""What the tests of bad days share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage import RunStore, open_or_set_aside
from tests.traces import make_trace
from tests.unit.storage.exports import save

NOT_STORED = "Runs are stored only until the page stops. The database "


@contextmanager
def opened(path: Path) -> Iterator[tuple[RunStore, str]]:
    store, notice = open_or_set_aside(f"sqlite:///{path}")
    with store:
        yield store, notice


def assert_works(store: RunStore) -> None:
    before = store.count()
    save(store, make_trace(new_tokens=3))
    assert store.count() == before + 1


def damages(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2 // 4096 * 4096
    return {
        "cut": content[: len(content) * 2 // 3],
        "cut in the first page": content[:1000],
        "overwritten": content[:middle] + b"\xa5" * 4096 + content[middle + 4096 :],
        "overwritten schema": content[:100] + os.urandom(3996) + content[4096:],
        "one bit": bytes(
            byte ^ (0x40 if number == middle else 0) for number, byte in enumerate(content)
        ),
    }
