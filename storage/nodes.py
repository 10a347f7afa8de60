"""The column ``nodes`` of a few steps as rows for export. Knows no connection."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from storage.records import read_nodes


def stored_nodes(steps: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """A row a node (step, number in the step, parent, depth, token id, piece, p, q, outcome) of rows (step, text of the column).

    Pieces keep the spelling of storage.text, a nan is None. Raises LookupError for an unknown outcome.
    """
    drafts = json.loads(f"[{','.join(text for _, text in steps)}]")
    return [
        (step, number, node.parent, node.depth, node.id, node.piece, _number(node.p), _number(node.q), node.outcome)
        for (step, _), draft in zip(steps, drafts, strict=True)
        for number, node in enumerate(read_nodes(draft), start=1)
    ]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
