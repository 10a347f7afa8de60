"""The result row of a text in a step: numbers that ``decide`` packs on the device and ``verdict`` reads on the
host.

A row is the number N of drafted tokens, its Contents and the number T of alternatives for each node
(HEAD numbers), then the COLUMNS that belong to these contents, grouped by dtype. A new metric of a
token is a field of ``types.Token`` with its column, and its values in ``decide``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, get_type_hints

import torch
from torch import Tensor

from mars_core.types import NODE_FIELDS, TOKEN_FIELDS
from mars_core.types.row import DOUBLE, ID, TOKEN_FLOAT, VERDICT, WIDE, Contents, Of, RowColumn

HEAD = 3


class RowToken(NamedTuple):
    """A drafted or emitted token: what was ``measured``, fields of a Token by name, and what they are
    made from. Absent values are nan, 0 for integers, or ()."""

    measured: dict[str, Any]
    strict: Annotated[float, VERDICT]  # strict keeps it, with the u of the rule
    mass: Annotated[float, TOKEN_FLOAT._replace(dtype="float64")]  # P of the token
    top_ids: Annotated[tuple[float, ...], WIDE._replace(dtype="int64")]
    top_z: Annotated[tuple[float, ...], WIDE]
    top_p: Annotated[tuple[float, ...], WIDE]  # of the displayed distribution


def _declared() -> dict[str, RowColumn]:
    hints = get_type_hints(RowToken, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if hasattr(hint, "__metadata__")}


MEASURED = {name: each.column for name, each in TOKEN_FIELDS.items() if each.column}
COLUMNS: tuple[RowColumn, ...] = tuple(
    column._replace(name=name)
    for name, column in {
        **MEASURED,
        **_declared(),
        **{name: each.column for name, each in NODE_FIELDS.items() if each.column},
        "keep": VERDICT,  # the rule keeps the token after its parent
        "emit": ID,  # the token emitted if the step ends here
        # of the token, if it is relaxed
        "charge": DOUBLE._replace(of=Of.DRAFTED, when=Contents.LEDGER),
    }.items()
)


def pack(
    values: Mapping[str, Tensor], contents: Contents, count: int, width: int, texts: int = 1
) -> Tensor:
    """Return the rows, float64 [A, M], of A = ``texts`` texts with N = ``count`` drafted tokens
    each and T = ``width``. ``values``: every column of ``contents``, one-dimensional, in the order
    of ``FlatDrafts``. Raises KeyError where one is missing."""
    head, order = _order(count, contents, width, texts, values["id"].device)
    groups = (torch.cat([values[column.name] for column in group]) for group in _groups(contents))
    return torch.cat([head, *groups]).take(order)


@cache
def _order(
    count: int, contents: Contents, width: int, texts: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the first numbers of every row, and where each number of the rows is, [A, M]: after
    these come the columns of all texts."""
    parts = (count,), (count, 1), (count, count, 1), (count * width, width)  # by Of
    columns = (column for group in _groups(contents) for column in group)
    blocks, start = [torch.arange(HEAD, device=device).expand(texts, -1)], HEAD
    for length in (length for column in columns for length in parts[column.of]):
        blocks.append(start + torch.arange(texts * length, device=device).view(texts, length))
        start += texts * length
    head = torch.tensor([count, contents, width], dtype=torch.float64, device=device)
    return head, torch.cat(blocks, 1)


@cache
def _groups(contents: int) -> tuple[tuple[RowColumn, ...], ...]:
    """Return the columns of each dtype, in the order of the row."""
    there = [column for column in COLUMNS if column.when in Contents(contents)]
    dtypes = dict.fromkeys(column.dtype for column in there)
    return tuple(tuple(column for column in there if column.dtype == dtype) for dtype in dtypes)


@cache
def columns_of(count: int, contents: int, width: int) -> Mapping[str, tuple[RowColumn, int]]:
    """Return every column, by name, with its start in rows with N = ``count`` drafted tokens and T =
    ``width``; 0 where it is absent."""
    lengths, at = (count, count + 1, 2 * count + 1, (count + 1) * width), HEAD
    columns = {column.name: (column, 0) for column in COLUMNS}
    for column in (column for group in _groups(contents) for column in group):
        columns[column.name] = column, at
        at += lengths[column.of]
    return columns
