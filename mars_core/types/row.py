"""What the device measures: how a field of a token, and of a drafted node, stands in the row of
numbers that is the only transfer of a step (mars_core/verification)."""

from __future__ import annotations

import math
from enum import IntEnum, IntFlag
from typing import NamedTuple


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
    """``dtype``: its name in torch; ``root``: value of DRAFTED and TOKEN columns for the root;
    ``emitted``: value of DRAFTED ones for tokens that were not drafted."""

    dtype: str
    of: Of
    when: Contents = Contents.TELEMETRY
    root: float = math.nan
    emitted: float = math.nan
    name: str = ""

    @property
    def absent(self) -> float:
        """Its value in a row without it."""
        return 0 if self.dtype == "int64" else math.nan


ID = RowColumn("int64", Of.NODE, Contents.ALWAYS)
PARENT = RowColumn("int64", Of.DRAFTED, Contents.ALWAYS, root=-1.0)
VERDICT = RowColumn("bool", Of.DRAFTED, Contents.ALWAYS, root=1.0)
FLOAT = RowColumn("float32", Of.NODE)
DOUBLE = RowColumn("float64", Of.NODE)
TOKEN_FLOAT = RowColumn("float32", Of.TOKEN, root=1.0)
WIDE = RowColumn("float32", Of.WIDE)
RAW = RowColumn("float32", Of.NODE, Contents.PROCESSED)
