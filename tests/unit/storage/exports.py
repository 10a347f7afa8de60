"""What the tests of the store share: a saved comparison, errors, exported files."""

from __future__ import annotations

import csv
import io
import resource
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mars_core.types import Trace
from storage import RunStore, Source, StorageError
from storage.export import write_csv
from storage.schema.text import storable


def as_stored(value: Any) -> Any:
    """A value with texts as they are stored."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value)]
        return replace(value, **{name: as_stored(getattr(value, name)) for name in names})
    if isinstance(value, tuple):
        items = map(as_stored, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, Mapping):
        return {as_stored(key): as_stored(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(as_stored, value))
    return storable(value) if type(value) is str else value


def save(store: RunStore, *traces: Trace, source: Source = Source.COMPARE) -> str:
    """The id of a comparison of these runs, by lane."""
    comparison_id = store.new_comparison(traces[0].config.prompt, source=source)
    for lane, trace in enumerate(traces):
        store.save_run(comparison_id, trace, lane=lane, order=lane)
    return comparison_id


def replaced(trace: Trace, **settings: Any) -> Trace:
    """With another configuration."""
    return replace(trace, config=replace(trace.config, **settings))


def failing(message: str) -> pytest.RaisesExc[StorageError]:
    """What is done here raises a StorageError with this message (a pattern)."""
    return pytest.raises(StorageError, match=message)


def csv_of(name: str, store: RunStore) -> str:
    stream = io.BytesIO()
    write_csv(name, store, stream)
    return stream.getvalue().decode()


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def peak(export: Callable[[], object]) -> int:
    """Bytes that Python, numpy and Arrow allocate at most."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        export()
        return tracemalloc.get_traced_memory()[1] + int(pool.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def read_parquet(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@contextmanager
def file_limit(most: int) -> Iterator[None]:
    """No file of this process may grow beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
