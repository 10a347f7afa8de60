"""Values of records, checked, and the configuration of a run of which a record says little."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from evaluation.served.counts import LARGEST
from mars_core.types import (
    SERVER,
    UNKNOWN,
    DrafterConfig,
    DraftMode,
    ModelRef,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Trace,
)

NAN = math.nan
RecordRow = Mapping[str, Any]
Read = tuple[Trace, datetime | None, str]  # the run, when it was created, and where it comes from


def config_of(
    model: Any,
    server: str,
    *,
    k: int = 0,
    prompt: str = "",
    rule: RuleConfig = RuleConfig(SERVER),
    kind: str = SERVER,
    drafter: str = "",
    temperature: float = NAN,
    seed: int = UNKNOWN,
    **environment: str,
) -> RunConfig:
    drafts = DrafterConfig(kind, ModelRef(drafter) if drafter else None, k, DraftMode.GREEDY)
    sampling = Sampling(temperature, UNKNOWN, NAN)
    return RunConfig(
        PromptConfig(prompt, chat=False),
        ModelRef(str(model) or "unknown"),
        drafts,
        rule,
        sampling,
        UNKNOWN,
        seed,
        {"server": server, **environment},
    )


def number(value: Any) -> float:
    """nan for None. Raises ValueError for what is not a number."""
    if value is None:
        return NAN
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise ValueError(f"{str(value)[:40]!r} is not a number of at most {LARGEST:,}")
    return float(value)
