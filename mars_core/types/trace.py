"""What a run did: its steps, its summary and how it ended. Every value is frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from mars_core.types.configuration import RunConfig
from mars_core.types.token import UNKNOWN, FieldDescription, PrefixToken, Step, Token, described


class Status(StrEnum):
    """The final status of a run."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StopReason(StrEnum):
    """The reason why generation ended."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    LENGTH = "length"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"  # cancelled because the time limit was reached
    ERROR = "error"
    UNKNOWN = "unknown"  # not reported by a server


class Cause(StrEnum):
    """Why two runs of the same text differ."""

    RELAXED = "relaxed"  # the rule accepted a token that strict rejects
    TIGHTENED = "tightened"  # the rule rejected a token that strict keeps
    REDRAWN = "redrawn"  # both rejected; the rule corrects with another distribution or emits top-1
    NUMERIC = "numeric"  # the same decision on logits that differ by rounding
    LENGTH = "length"  # one text is the beginning of the other
    CHOSEN = "chosen"  # the user chose another token: the difference is in a prefix
    HISTORY = "history"  # the turns before have other answers, so that the prompts differ
    UNKNOWN = "unknown"  # a server did not report the target's token


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of one run, with the texts of ``FieldDescription``. Undefined rates are nan,
    counts that a server did not report UNKNOWN. A later field has a default, for older runs."""

    new_tokens: Annotated[int, "generated", "tokens"]
    prompt_tokens: Annotated[int, "of the prompt", "tokens"]
    steps: Annotated[int, "without the prefill"]
    wall_s: Annotated[float, "from the first token of the prompt to the last new one", "s"]
    ttft_s: Annotated[float, "to the first new token", "s"]  # prefill and one step
    prefill_s: Annotated[float, "to read the prompt", "s"]
    draft_s: Annotated[float, "spent in the drafter", "s"]
    verify_s: Annotated[float, "spent in target passes and verification", "s"]
    tokens_per_s: Annotated[float, "new_tokens / wall_s", "1/s"]
    tau: Annotated[float, "emitted per step, τ", "tokens"]
    drafted: Annotated[int, "by all steps", "tokens"]
    accepted: Annotated[int, "drafted, kept by strict too", "tokens"]
    relaxed: Annotated[int, "drafted, kept by the rule where strict rejects", "tokens"]
    rejected: Annotated[int, "drafted - accepted - relaxed", "tokens"]
    recovered: Annotated[int, "emitted instead of a rejected one", "tokens"]
    bonus: Annotated[int, "emitted after a fully accepted draft", "tokens"]
    acceptance_rate: Annotated[float, "kept / drafted"]
    relaxed_share: Annotated[float, "relaxed / new_tokens"]
    tv_sum: Annotated[float, "total variation, summed over new tokens"]
    tv_mean: Annotated[float, "tv_sum / new_tokens"]
    tv_max: Annotated[float, "the largest"]
    # infinite where the rule may emit what p excludes
    kl_sum: Annotated[float, "KL divergence, summed over new tokens", "nats"]
    kl_mean: Annotated[float, "kl_sum / new_tokens", "nats"]
    kl_max: Annotated[float, "the largest", "nats"]
    shifted_share: Annotated[float, "steps with a TV above 1e-9 / steps"]  # SHIFTED
    log_likelihood: Annotated[float, "of the new tokens under the target, temperature 1", "nats"]
    perplexity: Annotated[float, "exp(-log_likelihood / new_tokens)"]
    peak_memory_bytes: Annotated[
        int, "peak of the process: on CUDA in the run, else so far", "bytes"
    ]
    acceptance_by_position: Annotated[
        tuple[float, ...], "by depth: steps that kept a token / steps that drafted one"
    ]
    overshoot_max: Annotated[float, "largest overshoot of a token"] = math.nan
    loop_tokens: Annotated[
        int,
        "span that the end repeats, three times or more, at least 24 tokens; 0: none",  # LOOP
        "tokens",
    ] = UNKNOWN
    loop_start: Annotated[int, "new before the first repeat; −1: no loop", "tokens"] = UNKNOWN
    tau_before_loop: Annotated[float, "τ of the steps before it", "tokens"] = math.nan
    tokens_per_s_before_loop: Annotated[float, "to the end of these", "1/s"] = math.nan


SUMMARY_FIELDS: Mapping[str, FieldDescription] = described(Summary)


@dataclass(frozen=True, slots=True)
class Trace:
    """One run: its configuration, steps and result. ``text`` is the decoded output without special
    tokens. It begins with the text of the ``given`` tokens; ``steps``, ``tokens``, ``token_ids``
    and ``summary`` cover new tokens only."""

    config: RunConfig
    status: Status
    stop_reason: StopReason
    prompt_ids: tuple[int, ...]
    text: str
    steps: tuple[Step, ...]
    summary: Summary
    error: str = ""  # one sentence; only with status failed
    given: tuple[PrefixToken, ...] = ()  # one per id of the configuration's prefix

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The emitted tokens, in order; the first has output position ``len(given)``."""
        return tuple(token for step in self.steps for token in step.emitted)

    @property
    def output(self) -> tuple[PrefixToken | Token, ...]:
        """The token at every output position."""
        return (*self.given, *self.tokens)

    @property
    def repeats_from(self) -> int | None:
        """Output position of the first token of the first repeat of a loop."""
        start = self.summary.loop_start
        return None if start == UNKNOWN else len(self.given) + start

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first output position at which two runs differ, and why. ``gap``: logit gap of a numeric
    tie, else nan."""

    position: int
    cause: Cause
    gap: float
