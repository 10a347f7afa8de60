"""The result row of a text in a step: numbers that ``judge`` packs on the device and ``verdict`` reads on the
host.

A row is the number N of drafted tokens, its Contents and the number T of alternatives for each node
(HEAD numbers), then the COLUMNS that belong to these contents, grouped by dtype. A new
metric of a token is a field of ``JudgedToken``, its values in ``judge``, and a field of
``types.Token``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from functools import cache
from typing import Annotated, Any, NamedTuple, get_type_hints

import torch
from torch import Tensor

HEAD = 3


class Of(IntEnum):
    """The items that a column has values for, and so its length."""

    DRAFTED = 0  # each drafted token: N
    NODE = 1  # each node, the root first: N + 1
    TOKEN = 2  # each token: the drafted ones, then the one emitted after each node: 2N + 1
    WIDE = 3  # each alternative of each node: (N + 1) · T


class Contents(IntFlag):
    """What a row contains. It has the columns whose ``when`` is part of its contents."""

    ALWAYS = 0
    TELEMETRY = 1
    DRAWS = 2  # telemetry, temperature above 0
    PROCESSED = 4  # telemetry, logits with penalties or biases
    ODDS = 8  # telemetry, coupled tree
    VARYING = 16  # telemetry, a parameter that is an expression
    LEDGER = 32  # a rule that charges what it relaxes


class RowColumn(NamedTuple):
    """``root``: value of DRAFTED and TOKEN columns for the root; ``emitted``: value of DRAFTED ones
    for tokens that were not drafted."""

    dtype: torch.dtype
    of: Of
    when: Contents = Contents.TELEMETRY
    root: float = math.nan
    emitted: float = math.nan
    name: str = ""


_ID = RowColumn(torch.long, Of.NODE, Contents.ALWAYS)
_VERDICT = RowColumn(torch.bool, Of.DRAFTED, Contents.ALWAYS, root=1.0)
_FLOAT = RowColumn(torch.float32, Of.NODE)
_DOUBLE = RowColumn(torch.float64, Of.NODE)
_WIDE = RowColumn(torch.float32, Of.WIDE)
_RAW = RowColumn(torch.float32, Of.NODE, Contents.PROCESSED)


class JudgedToken(NamedTuple):
    """A drafted or emitted token, with the columns of its position and its own. Absent values are
    nan, 0 for integers, or ()."""

    id: Annotated[int, _ID]
    parent: Annotated[  # node number
        int, RowColumn(torch.long, Of.DRAFTED, Contents.ALWAYS, root=-1.0)
    ]
    own: Annotated[int, _ID]  # the target's draw after the node
    strict: Annotated[float, _VERDICT]  # strict keeps it, with the u of the rule
    z1: Annotated[float, _FLOAT._replace(when=Contents.ALWAYS)]  # largest logit after the node
    raw_z1: Annotated[float, _RAW]  # logits of the two best before processors
    raw_z2: Annotated[float, _RAW]
    # among the logits of its position, 1 = largest
    rank: Annotated[int, RowColumn(torch.long, Of.TOKEN, root=1.0)]
    # under the target's distribution at its position
    p: Annotated[float, RowColumn(torch.float32, Of.TOKEN, root=1.0)]
    q: Annotated[float, RowColumn(torch.float32, Of.DRAFTED, root=1.0)]
    # ln softmax(z) at its position
    logprob: Annotated[float, RowColumn(torch.float32, Of.TOKEN, root=0.0)]
    forgiveness: Annotated[float, RowColumn(torch.float64, Of.DRAFTED, root=0.0, emitted=0.0)]
    coin: Annotated[float, _DOUBLE]  # the accepting uniform of the token after the node
    # difference of the two best of ln p + Gumbel noise
    edge: Annotated[float, _FLOAT._replace(when=Contents.DRAWS)]
    entropy: Annotated[float, _FLOAT]  # of the displayed distribution, nats
    # Of the distribution P of the token after the node: see ``shift``
    tv: Annotated[float, _DOUBLE]  # between P and p
    kl: Annotated[float, _DOUBLE]  # nats
    # its value, of several the first's
    parameter: Annotated[float, _DOUBLE._replace(when=Contents.VARYING)]
    # of the run before the token after the node
    regret: Annotated[float, _DOUBLE._replace(when=Contents.LEDGER)]
    overshoot: Annotated[float, _DOUBLE]  # the largest P/p of any token
    mass: Annotated[float, RowColumn(torch.float64, Of.TOKEN, root=1.0)]  # P of the token
    top_ids: Annotated[tuple[float, ...], _WIDE._replace(dtype=torch.long)]
    top_z: Annotated[tuple[float, ...], _WIDE]
    top_p: Annotated[tuple[float, ...], _WIDE]  # of the displayed distribution


COLUMNS: tuple[RowColumn, ...] = (
    *(
        hint.__metadata__[0]._replace(name=name)
        for name, hint in get_type_hints(JudgedToken, include_extras=True).items()
    ),
    _VERDICT._replace(name="keep"),  # the rule keeps the token after its parent
    _ID._replace(name="emit"),  # the token emitted if the step ends here
    RowColumn(torch.float32, Of.DRAFTED, Contents.ODDS, name="odds"),
    # of the token, if it is relaxed
    RowColumn(torch.float64, Of.DRAFTED, Contents.LEDGER, name="charge"),
)


def pack(
    values: Mapping[str, Tensor], contents: Contents, count: int, width: int, texts: int = 1
) -> Tensor:
    """The rows, float64 [A, M], of A = ``texts`` texts with N = ``count`` drafted tokens each and T
    = ``width``. ``values``: every column of ``contents``, one-dimensional, in the order of
    ``FlatDrafts``. Raises KeyError where one is missing."""
    head, order = _order(count, contents, width, texts, values["id"].device)
    groups = (torch.cat([values[column.name] for column in group]) for group in _groups(contents))
    return torch.cat([head, *groups]).take(order)


@cache
def _order(
    count: int, contents: Contents, width: int, texts: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The first numbers of every row, and where each number of the rows is, [A, M]: after these
    come the columns of all texts."""
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
    """The columns of each dtype, in the order of the row."""
    there = [column for column in COLUMNS if column.when in Contents(contents)]
    dtypes = dict.fromkeys(column.dtype for column in there)
    return tuple(tuple(column for column in there if column.dtype is dtype) for dtype in dtypes)


class Layout(NamedTuple):
    """Position and defaults of the columns in rows of one shape."""

    starts: tuple[dict[str, int], ...]  # start of each column, by Of
    integers: tuple[str, ...]  # the columns of integers, without the wide ones
    root: dict[str, Any]  # values of token columns for the root
    emitted: dict[str, Any]  # values of drafted-token columns for an emitted token
    absent: dict[str, Any]  # values of absent columns: nan, 0 for integers, or ()


@cache
def layout(count: int, contents: int, width: int) -> Layout:
    """The layout of rows with N = ``count`` drafted tokens and T = ``width``."""
    lengths, at = (count, count + 1, 2 * count + 1, (count + 1) * width), HEAD
    starts: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for column in (column for group in _groups(contents) for column in group):
        starts[column.of][column.name] = at
        at += lengths[column.of]
    integers = tuple(
        column.name for column in COLUMNS if column.dtype is torch.long and column.of is not Of.WIDE
    )
    missing = (column for column in COLUMNS if column.name not in starts[column.of])
    absent = {
        each.name: () if each.of is Of.WIDE else 0 if each.name in integers else math.nan
        for each in missing
    }
    root = {column.name: column.root for column in COLUMNS if column.of in (Of.DRAFTED, Of.TOKEN)}
    emitted = {column.name: column.emitted for column in COLUMNS if column.of is Of.DRAFTED}
    return Layout(starts, integers, root, emitted, absent)
