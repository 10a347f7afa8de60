"""The runs that open pages show: a page keeps their ids, and an event that needs a trace has it
read again.

A run that could not be saved has a key instead of an id. It is here for as long as few others are
requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from types import MappingProxyType
from typing import Any, NamedTuple

from mars_core.types import Trace
from storage import StorageError
from ui.jobs.services import Services
from ui.public.latest import Latest

MOST = 8  # traces in memory, of all pages together; one of 2,048 tokens takes a few MB


class DisplayedRuns(NamedTuple):
    """What a page keeps: column → id of its run, or key; ``share``: token of the link through which
    they are read; ``names``: by column."""

    runs: Mapping[int, str]
    share: str = ""
    names: Mapping[int, str] = MappingProxyType({})


class StoredRuns:
    """Traces by id or key, the latest ones in memory. Safe between threads. ``always``: traces that
    are in no store, by key."""

    def __init__(
        self, services: Services, always: Mapping[str, Trace] = MappingProxyType({})
    ) -> None:
        self._services, self._always = services, always
        self._recent = Latest[Trace](MOST)

    def keys(self, traces: Mapping[int, Trace], ids: Mapping[int, str]) -> dict[int, str]:
        """Column → id, or the key of a run without one, which is stored here."""
        keys = {lane: ids.get(lane) or f"unsaved-{token_hex(16)}" for lane in traces}
        for lane in (lane for lane in traces if not ids.get(lane)):
            self._recent.put(keys[lane], traces[lane])
        return keys

    def read(self, request: Any, displayed: DisplayedRuns, lane: int) -> Trace | None:
        """Read the run of a column with the rights of the visitor of ``request``; None where
        it is no longer there."""
        key = displayed.runs[lane]
        trace = self._always.get(key) or self._recent.get(key)
        if trace is None:
            with suppress(StorageError):
                store = self._services.for_visitor(request).store
                store = store.through(displayed.share) if displayed.share else store
                if trace := store.traces([key]).get(key):
                    self._recent.put(key, trace)
        return trace
