"""Waits for something that may hang, but not for ever: huggingface_hub sends without a time limit. Knows no backups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from hosting.backup.remote import GivenUp, GoOn

_Result = TypeVar("_Result")
_LOOK_S = 0.05


class _Call(Generic[_Result]):
    """One call in a thread of its own, which a process that ends does not wait for."""

    def __init__(self, call: Callable[[GoOn], _Result], name: str) -> None:
        self._call = call
        self._abandoned = threading.Event()
        self._result: list[_Result] = []
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._result.append(self._call(self._go_on))
        except BaseException as error:  # noqa: BLE001  (raised again by whoever waits)
            self._error = error

    def _go_on(self) -> None:
        if self._abandoned.is_set():
            raise GivenUp("Nobody waits for it any more.")

    def abandon(self) -> None:
        self._abandoned.set()

    def outcome(self) -> _Result:
        if self._error is not None:
            raise self._error
        return self._result[0]


def within(call: Callable[[GoOn], _Result], until: Callable[[], float], name: str) -> _Result:
    """What ``call`` returns, or raises. ``until``: the time.monotonic() up to which to wait, asked again and again. Raises GivenUp.

    A call that was given up ends at its next ``go_on()``, if it gets there at all.
    """
    running = _Call(call, name)
    running.thread.start()
    while running.thread.is_alive():
        running.thread.join(_LOOK_S)
        if running.thread.is_alive() and time.monotonic() > until():
            running.abandon()
            raise GivenUp("It took too long.")
    return running.outcome()
