"""The tables of runs that are not in a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from mars_core.types import Trace
from storage.export.columns import RUNS
from storage.export.reading import TV_KIND
from storage.export.tables import table_of, trace_table
from storage.runs.records import prompt_row, run_row
from storage.schema import Source
from storage.schema.text import mapped, storable
from storage.traces.flat import flatten, joined

_NOTES = {"comparison_id": "", "name": "", "tags": (), "comment": "", "source": Source.COMPARE}


def unsaved(name: str, executed: Sequence[tuple[int, Trace]]) -> pa.Table:
    """Return the ``runs``, ``tokens`` or ``nodes`` of one comparison, from its runs with their
    lanes in the order of execution; by lane and in that order, as the exports. A run has the number
    of its row as its id."""
    runs = sorted(enumerate(executed), key=lambda each: each[1][0])
    rows = [
        {
            **_NOTES,
            **mapped(prompt_row(trace.config.prompt) | run_row(trace), storable),
            "run_id": str(number),
            "lane": lane,
            "execution_order": order,
            "created_at": datetime.now(UTC),
            TV_KIND: trace.config.shift_kind,
        }
        for number, (order, (lane, trace)) in enumerate(runs)
    ]
    if name == "runs":
        return table_of(RUNS, [{each.name: row[each.name] for each in RUNS[1:]} for row in rows])
    return trace_table(name, rows, joined([flatten(trace.steps) for _, (_, trace) in runs]))
