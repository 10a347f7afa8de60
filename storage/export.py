"""Runs, tokens, drafted nodes and votes as CSV (for people and spreadsheets) and Parquet (the lossless form). Knows no page.

Both have one row a run, a token, a node or a vote, in the order in which the comparisons were made, and are written in constant memory.
Column names are the terms of docs/verification.md; ``schema_version`` comes first.

CSV: RFC 4180, UTF-8, CRLF; times ISO 8601 in UTC; a missing value or nan is an empty cell; lists are JSON. A text cell
that a spreadsheet would take for a formula gets a leading ``'``; characters that no reader can take are written
``\\uXXXX``. Parquet: texts in the spelling of storage.text (its ``decode`` gives the exact string), nan as nan, lists
and maps as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from storage.cells import cell, cells, guarded
from storage.parquet import write_parquet
from storage.rows import (
    NODE_COLUMNS,
    RUN_COLUMNS,
    TOKEN_COLUMNS,
    VOTE_COLUMNS,
    Columns,
    Piece,
    node_pieces,
    run_pieces,
    token_pieces,
    vote_pieces,
)
from storage.store import RunStore

__all__ = [
    "cell",
    "guarded",
    "write_nodes_csv",
    "write_nodes_parquet",
    "write_runs_csv",
    "write_runs_parquet",
    "write_tokens_csv",
    "write_tokens_parquet",
    "write_votes_csv",
    "write_votes_parquet",
]

RUNS_A_GROUP = 100
TOKENS_A_GROUP = 20_000
NODES_A_GROUP = 20_000
VOTES_A_GROUP = 1000


def write_runs_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All runs, or those of some comparisons, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, RUN_COLUMNS, run_pieces(store, comparison_ids))


def write_tokens_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All tokens, the rejected ones included, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, TOKEN_COLUMNS, token_pieces(store, comparison_ids))


def write_nodes_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All drafted nodes, kept or not, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, NODE_COLUMNS, node_pieces(store, comparison_ids))


def write_votes_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All blind votes, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, VOTE_COLUMNS, vote_pieces(store, comparison_ids))


def write_runs_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All runs, or those of some comparisons, to the file ``path``, which appears whole or not at all."""
    write_parquet(path, RUN_COLUMNS, run_pieces(store, comparison_ids), RUNS_A_GROUP)


def write_tokens_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All tokens, the rejected ones included, to the file ``path``, which appears whole or not at all."""
    write_parquet(path, TOKEN_COLUMNS, token_pieces(store, comparison_ids), TOKENS_A_GROUP)


def write_nodes_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All drafted nodes, kept or not, to the file ``path``, which appears whole or not at all."""
    write_parquet(path, NODE_COLUMNS, node_pieces(store, comparison_ids), NODES_A_GROUP)


def write_votes_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All blind votes, to the file ``path``, which appears whole or not at all."""
    write_parquet(path, VOTE_COLUMNS, vote_pieces(store, comparison_ids), VOTES_A_GROUP)


def _write_csv(stream: TextIO, columns: Columns, pieces: Iterable[Piece]) -> None:
    """Joins the cells itself: csv.writer looks twice at every character, of numbers too, and takes longer than all the rest."""
    stream.write(",".join(column.name for column in columns) + "\r\n")
    for piece in pieces:
        shown = (cells(column.name, column.type, piece[column.name]) for column in columns)
        stream.writelines(f"{','.join(row)}\r\n" for row in zip(*shown, strict=True))
