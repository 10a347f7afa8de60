"""What one lane of a task came to: alone (Result) and beside its baseline (Relative). Values in, values out; knows no store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mars_core.types import Status

NAN = math.nan


@dataclass(frozen=True, slots=True)
class Result:
    """One lane of one task, all turns of a conversation together: counts and seconds are sums, so that they can be pooled.

    ``scores``: metric → 0 to 1, empty where the item has no reference. ``drafted_at``, ``kept_at``: steps that drafted, and kept,
    a token at draft position i + 1. Rates of nothing are nan.
    """

    status: Status
    error: str = ""  # one sentence; only with status failed
    turns: int = 1  # that were run
    ended: bool = False  # every turn by its end token or a stop string, none by max_new_tokens
    prompt_tokens: int = 0
    new_tokens: int = 0
    characters: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    relaxed: int = 0
    wall_s: float = 0.0
    prefill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    tv_sum: float = 0.0
    tv_max: float = NAN
    kl_sum: float = 0.0  # nats
    log_likelihood: float = 0.0  # under the target, nats
    drafted_at: tuple[int, ...] = ()
    kept_at: tuple[int, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the store; what is no finite number is a word there."""
        return {name: _plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Relative:
    """One lane beside its baseline, strict with the same drafter (for ``none``: the first strict lane). Scores are 0 to 1."""

    same: bool  # token for token
    same_as_none: bool | None = None  # None without a lane ``none``
    divergence: int | None = None  # first differing output position, over the tokens of all turns
    cause: str = ""  # mars_core.types.Cause of it
    bleu: float = NAN  # sentence BLEU, the baseline's text as reference
    chrf: float = NAN
    rouge_l: float = NAN

    def as_dict(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in asdict(self).items()}


def read_result(stored: Mapping[str, Any]) -> Result:
    """The result of ``as_dict``. Raises ValueError for one that this version cannot read."""
    try:
        given = {name: _number(value) for name, value in stored.items()}
        given |= {name: tuple(stored[name]) for name in ("drafted_at", "kept_at")}
        given |= {"status": Status(stored["status"]), "error": stored["error"]}
        given["scores"] = {name: _number(value) for name, value in stored["scores"].items()}
        return Result(**given)
    except (TypeError, KeyError) as error:
        raise ValueError(f"The study was saved by another version of this program; {error} does not fit.") from None


def read_relative(stored: Mapping[str, Any]) -> Relative:
    """The value of ``as_dict``. Raises ValueError for one that this version cannot read."""
    try:
        return Relative(**{name: _number(value) for name, value in stored.items()} | {"cause": stored["cause"]})
    except (TypeError, KeyError) as error:
        raise ValueError(f"The study was saved by another version of this program; {error} does not fit.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value
