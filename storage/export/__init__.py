"""Runs, tokens, drafted nodes and votes as CSV (for people and spreadsheets) and Parquet (the lossless form). Knows no page.

Both have one row a run, a token, a node or a vote, in the order in which the comparisons were made, and are written in constant memory.
Column names are the terms of docs/verification.md; ``schema_version`` comes first.

CSV: RFC 4180, UTF-8, CRLF; times ISO 8601 in UTC; a missing value or nan is an empty cell; lists are JSON. A text cell
that a spreadsheet would take for a formula gets a leading ``'``; characters that no reader can take are written
``\\uXXXX``. Parquet: texts in the spelling of storage.schema.text (its ``decode`` gives the exact string), nan as nan, lists
and maps as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TextIO

from storage.export import parquet
from storage.export.cells import cell as cell
from storage.export.cells import cells
from storage.export.cells import guarded as guarded
from storage.export.rows import NODES, RUNS, TOKENS, VOTES, Export, pieces
from storage.store import RunStore

ROWS_A_GROUP = {"runs": 100, "tokens": 20_000, "nodes": 20_000, "votes": 1000}  # of a Parquet file


def write_csv(export: Export, store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All rows, or those of some comparisons, to a text stream opened with ``encoding="utf-8", newline=""``.

    Joins the cells itself: csv.writer looks twice at every character, of numbers too, and takes longer than all the rest.
    """
    rows = pieces(export, store, comparison_ids)
    stream.write(",".join(column.name for column in export.columns) + "\r\n")
    for piece in rows:
        shown = (cells(column.name, column.type, piece[column.name]) for column in export.columns)
        stream.writelines(f"{','.join(row)}\r\n" for row in zip(*shown, strict=True))


def write_parquet(export: Export, store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All rows, or those of some comparisons, to the file ``path``, which appears whole or not at all."""
    rows = pieces(export, store, comparison_ids)
    parquet.write(path, export.columns, rows, ROWS_A_GROUP[export.name])


# Of runs; of tokens, the rejected ones included; of drafted nodes, kept or not; of blind votes.
write_runs_csv, write_tokens_csv, write_nodes_csv, write_votes_csv = (
    partial(write_csv, export) for export in (RUNS, TOKENS, NODES, VOTES)
)
write_runs_parquet, write_tokens_parquet, write_nodes_parquet, write_votes_parquet = (
    partial(write_parquet, export) for export in (RUNS, TOKENS, NODES, VOTES)
)
