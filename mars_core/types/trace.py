"""What a run did: tokens, steps and their summary. Every value is frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mars_core.types.configuration import RunConfig

UNKNOWN = -1  # a count or an id that was not reported: of a served model, or of an older release


class Outcome(StrEnum):
    """The outcome of a token; used by engine, database, CSV, colours and help texts."""

    ACCEPTED = "accepted"  # drafted, accepted by the strict rule
    # drafted, accepted by the rule under test where strict, with the same u, would have rejected
    RELAXED = "relaxed"
    REJECTED = "rejected"  # drafted, not accepted: in the trace, not in the text
    RECOVERED = "recovered"  # drawn after a rejection
    BONUS = "bonus"  # drawn after every drafted token was accepted (with no draft: every token)


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
    """Why two runs of the same prompt differ."""

    RELAXED = "relaxed"  # the rule accepted a token that strict rejects
    TIGHTENED = "tightened"  # the rule rejected a token that strict keeps
    REDRAWN = "redrawn"  # both rejected; the rule corrects with another distribution or emits top-1
    NUMERIC = "numeric"  # the same decision on logits that differ by rounding
    LENGTH = "length"  # one text is the beginning of the other
    CHOSEN = "chosen"  # the user chose another token: the difference is in a prefix
    UNKNOWN = "unknown"  # a server did not report the target's token


class PrefixToken(NamedTuple):
    """A token of the run's prefix; ``text[start:end]`` are the characters that become complete with
    it."""

    id: int
    piece: str
    start: int
    end: int


class Alternative(NamedTuple):
    """One of the target's most likely tokens at a position: id, text and probability p under the
    run's sampling."""

    id: int
    piece: str
    p: float


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token, or (``outcome=rejected``) the drafted token that the recovered token after
    it replaces.

    ``z1 >= z2`` are the target's two best logits after penalties and biases, ``r = z2/z1`` (nan
    where z1 <= 0: such a position counts as decisive) and ``gap = z1 - z2``. ``p``, ``q`` are the
    token's probability under target and drafter (q is nan where nothing was drafted; 1 for drafters
    without probabilities). ``own`` is the token the target drew here; ``forgiveness`` is the
    probability with which the rule keeps this token though strict does not; ``tv`` and ``kl``
    (nats) are total variation and KL(P‖p) between p and the distribution P of the token emitted
    here, given the context and a greedy draft, or what ``RunConfig.shift_kind`` says; ``logprob``
    is ln softmax(z) of this token: always at temperature 1, of raw logits. ``raw_z1``, ``raw_z2``:
    the raw logits of ``id1``, ``id2``; nan without penalties and biases.
    """

    position: (
        int  # output position, 0-based; a rejected token has that of the token emitted instead
    )
    step: int  # 0-based
    draft_position: int  # depth in the draft, 1..; for a recovered or bonus token: accepted tokens of the step + 1
    node: (
        int  # number of the drafted node in the step's tree, 1..; 0 for a recovered or bonus token
    )
    parent: int  # number of the parent node; 0 is the root, the last token of the previous step
    outcome: Outcome
    id: int
    piece: str
    start: int  # characters of the run's text that become complete with this token: text[start:end]
    end: int
    z1: float
    z2: float
    raw_z1: float
    raw_z2: float
    id1: int
    id2: int
    r: float
    gap: float
    own: int
    own_piece: str
    p: float
    q: float
    rank: int  # of this token in p, 1 = most likely
    entropy: float  # of p, nats
    forgiveness: float
    # the drawing uniform, of runs that drew by inverse CDF (no ``sampler`` in their environment);
    # else nan
    u: float
    coin: float  # the accepting uniform: for sampled drafts and randomised rules
    # difference of the two best of ln p + Gumbel noise, with ``u`` its distance to another token;
    # at temperature 0 the gap
    edge: float
    tv: float
    kl: float
    logprob: float
    top: tuple[Alternative, ...]
    # value here of the first parameter that is an expression; nan where none is
    parameter: float = math.nan
    # what the run's relaxed tokens before it have charged, of rules with a ledger; else nan
    regret: float = math.nan
    # of P, where TV is exact: the largest P/p of any token here, and ln P of this token, with which
    # the rule samples it
    overshoot: float = math.nan
    rule_logprob: float = math.nan


@dataclass(frozen=True, slots=True)
class DraftNode:
    """One drafted token of a step's tree, accepted or not. ``p`` and ``q``: probabilities under
    target and drafter, given its parent; ``odds``: what the drafter of a coupled tree compared
    instead of q, else nan."""

    id: int
    piece: str
    parent: int  # number of its parent node; 0 is the root, nodes are numbered from 1
    depth: int  # 1..
    p: float
    q: float
    outcome: Outcome  # accepted, relaxed or rejected
    odds: float = math.nan


@dataclass(frozen=True, slots=True)
class Step:
    """One draft and one target pass. ``tokens`` in order of position, a rejected one directly
    before the recovered one."""

    index: int
    drafted: int
    kept: int  # drafted tokens in the text
    draft_s: float
    verify_s: float  # target pass, rule, commit and the transfer to the host
    elapsed_s: float  # since the start of the run, at the end of this step
    nodes: tuple[DraftNode, ...]  # the full draft; node number i is nodes[i - 1]
    tokens: tuple[Token, ...]

    @property
    def emitted(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.outcome is not Outcome.REJECTED)


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of one run. Times in seconds, memory in bytes; undefined rates are nan, counts
    that a server did not report UNKNOWN."""

    new_tokens: int
    prompt_tokens: int
    steps: int
    wall_s: float  # from the first token of the prompt to the last new one
    ttft_s: float  # to the first new token: prefill and one step
    prefill_s: float
    draft_s: float
    verify_s: float
    tokens_per_s: float  # new_tokens / wall_s
    tau: float  # emitted tokens per step; the prefill pass is not a step
    drafted: int
    accepted: int
    relaxed: int
    rejected: int  # drafted - accepted - relaxed
    recovered: int
    bonus: int
    acceptance_rate: float  # kept / drafted
    acceptance_by_position: tuple[
        float, ...
    ]  # steps that accepted a token at depth i / steps that drafted one there
    relaxed_share: float  # relaxed / new_tokens
    tv_sum: float
    tv_mean: float  # over emitted tokens
    tv_max: float
    kl_sum: float  # nats; infinite where the rule may emit what p excludes
    kl_mean: float
    kl_max: float
    # steps in which any emitted token's distribution differs from p (TV > SHIFTED) / steps
    shifted_share: float
    log_likelihood: float  # sum of logprob over the emitted tokens
    perplexity: float  # exp(−log_likelihood / new_tokens)
    peak_memory_bytes: int
    overshoot_max: float = math.nan
    # the shortest span of LOOPS tokens that occurs three times in a row; 0: none
    loop_tokens: int = UNKNOWN


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
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first output position at which two runs differ, and why. ``gap``: logit gap of a numeric
    tie, else nan."""

    position: int
    cause: Cause
    gap: float
