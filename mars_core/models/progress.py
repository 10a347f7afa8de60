"""What is said while a model is fetched and read: progress bars of libraries become messages."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

Progress = Callable[[str], None]


def bar_class(describe: Callable[[Any], str], progress: Progress) -> type[Any]:
    """Return a tqdm class without output: every half second ``progress`` gets the result of
    ``describe``, unless that is empty."""

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no monitor thread

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "file": io.StringIO(), "mininterval": 0.5})

        def display(self, *_args: Any, **_kwargs: Any) -> None:
            if message := describe(self):
                progress(message)

    return Bar


@contextmanager
def reported(stage: str, progress: Progress) -> Iterator[None]:
    """Converts transformers' progress bars to messages."""
    from transformers.utils import logging  # imported here: the page starts without it

    bar = bar_class(lambda bar: f"{stage}: {bar.n} of {bar.total}", progress)
    progress(stage)
    previous = logging.set_tqdm_hook(lambda _factory, args, kwargs: bar(*args, **kwargs))
    try:
        yield
    finally:
        logging.set_tqdm_hook(previous)
