"""What a run did: tokens, steps and their summary. Every value is frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, get_type_hints

from mars_core.types import row
from mars_core.types.configuration import RunConfig
from mars_core.types.row import Contents, Of, RowColumn

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
    """Why two runs of the same text differ."""

    RELAXED = "relaxed"  # the rule accepted a token that strict rejects
    TIGHTENED = "tightened"  # the rule rejected a token that strict keeps
    REDRAWN = "redrawn"  # both rejected; the rule corrects with another distribution or emits top-1
    NUMERIC = "numeric"  # the same decision on logits that differ by rounding
    LENGTH = "length"  # one text is the beginning of the other
    CHOSEN = "chosen"  # the user chose another token: the difference is in a prefix
    HISTORY = "history"  # the turns before have other answers, so that the prompts differ
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


class FieldDescription(NamedTuple):
    """A measurement, declared once as a field of ``Token``, ``DraftNode``, ``Step`` or ``Summary``.
    Exports have a column of its name, meaning and ``unit`` (empty for counts, ids, names and
    dimensionless numbers), the token view its ``label`` (empty: the name), the device's row of a
    token its ``column``, stored traces all numbers. Where it is absent it is nan, or UNKNOWN."""

    kind: Any  # its type
    meaning: str
    unit: str = ""
    label: str = ""
    column: RowColumn | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token, or (``outcome=rejected``) the drafted token that the recovered token after
    it replaces. Values that are not known, "empty" in exports, are nan.

    ``r`` is nan where z1 <= 0: such a position counts as decisive. ``q`` is 1 for drafters without
    probabilities. ``tv`` and ``kl`` (KL(P‖p)) are between p and the distribution P of the token
    emitted here, given the context and a greedy draft, or what ``RunConfig.shift_kind`` says;
    ``overshoot`` and ``rule_logprob`` are of P too. ``logprob`` is always at temperature 1, of raw
    logits. With ``u`` the ``edge`` is the distance of u to another token. The texts are those of
    ``FieldDescription``: meaning and, if it has one, unit.
    """

    step: Annotated[int, "decoding step, from 0"]
    position: Annotated[
        int,
        "in the output, from 0; a rejected token has that of the token emitted instead",
    ]
    draft_position: Annotated[
        int,
        "depth in the draft, from 1; of a recovered or bonus token: kept tokens of the step + 1",
        "",
        "depth",
    ]
    node: Annotated[int, "number of the drafted node, from 1; 0 for recovered and bonus tokens"]
    parent: Annotated[
        int, "number of the parent node; 0: the last token of the previous step", row.PARENT
    ]
    outcome: Annotated[Outcome, "accepted, relaxed, rejected, recovered, bonus"]
    id: Annotated[int, "in the target's vocabulary", row.ID]
    piece: Annotated[str, "its text; those of the emitted tokens join to the output text"]
    start: Annotated[
        int, "text[char_start:char_end] becomes complete with this token", "characters"
    ]
    end: Annotated[int, "see char_start", "characters"]
    z1: Annotated[
        float,
        "largest logit of the target, after penalties and biases",
        "",
        "z₁",
        row.FLOAT._replace(when=Contents.ALWAYS),
    ]
    z2: Annotated[float, "second largest", "", "z₂"]
    raw_z1: Annotated[
        float, "logit of id1 before penalties and biases; empty without them", row.RAW
    ]
    raw_z2: Annotated[float, "logit of id2 before them", row.RAW]
    id1: Annotated[int, "token of z1"]
    id2: Annotated[int, "token of z2"]
    r: Annotated[float, "z2 / z1, above θ the margin is low; empty where z1 <= 0"]
    gap: Annotated[float, "z1 - z2"]
    own: Annotated[int, "token that the target itself drew here", row.ID]
    own_piece: Annotated[str, "its text"]
    p: Annotated[float, "under the target, as sampled", row.TOKEN_FLOAT]
    q: Annotated[
        float,
        "under the drafter; empty where nothing was drafted",
        row.TOKEN_FLOAT._replace(of=Of.DRAFTED),
    ]
    rank: Annotated[
        int,
        "of the token under the target, from 1",
        row.TOKEN_FLOAT._replace(dtype="int64"),
    ]
    entropy: Annotated[float, "of the target's distribution, as sampled", "nats", row.FLOAT]
    forgiveness: Annotated[
        float,
        "probability with which the rule keeps a token that strict rejects",
        "",
        "relaxed",
        RowColumn("float64", Of.DRAFTED, root=0.0, emitted=0.0),
    ]
    u: Annotated[float, "uniform that drew own, in runs without sampler in their environment"]
    coin: Annotated[float, "uniform of sampled drafts, and of randomised rules", row.DOUBLE]
    edge: Annotated[
        float,
        "difference of the two best of ln p + Gumbel noise; at temperature 0 the gap",
        row.FLOAT._replace(when=Contents.DRAWS),
    ]
    tv: Annotated[
        float,
        "total variation between the emitted token's distribution and the target's",
        "",
        "TV",
        row.DOUBLE,
    ]
    kl: Annotated[
        float,
        "KL divergence of the emitted token's distribution from the target's",
        "nats",
        "KL",
        row.DOUBLE,
    ]
    logprob: Annotated[
        float,
        "ln softmax of the raw logits",
        "nats",
        "ln p",
        row.TOKEN_FLOAT._replace(root=0.0),
    ]
    overshoot: Annotated[
        float,
        "largest P(x) / p(x) of any token, P: the emitted token's distribution; empty unless tv_kind is exact",
        row.DOUBLE,
    ] = math.nan
    rule_logprob: Annotated[
        float,
        "ln P of the token, with which the rule samples it; empty unless tv_kind is exact",
        "nats",
    ] = math.nan
    top: Annotated[tuple[Alternative, ...], "most likely tokens of the target"] = ()
    parameter: Annotated[
        float,
        "value here of the first parameter that is an expression; empty where none is",
        "",
        "value",
        row.DOUBLE._replace(when=Contents.VARYING),
    ] = math.nan
    regret: Annotated[
        float,
        "what relaxed tokens before this one have charged, of rules with a ledger; else empty",
        row.DOUBLE._replace(when=Contents.LEDGER),
    ] = math.nan

    def displayed_p(self, *, greedy: bool) -> float:
        """Return its probability in the distribution of ``top``: at temperature 0 (``greedy``),
        where p is 0 or 1, that of the model."""
        if not greedy:
            return self.p
        return next((p for id_, _, p in self.top if id_ == self.id), math.exp(self.logprob))


@dataclass(frozen=True, slots=True)
class DraftNode:
    """One drafted token of a step's tree, accepted or not. Nodes are numbered from 1."""

    id: Annotated[int, "in the target's vocabulary"]
    piece: Annotated[str, "its text"]
    parent: Annotated[int, "number of the parent node; 0: the last token of the previous step"]
    depth: Annotated[int, "from 1"]
    p: Annotated[float, "under the target after its parent, as sampled"]
    q: Annotated[float, "under the drafter"]
    outcome: Annotated[Outcome, "accepted, relaxed, rejected"]
    odds: Annotated[
        float,
        "share of the sum of q/E after the parent, which orders coupled trees; else empty",
        RowColumn("float32", Of.DRAFTED, Contents.ODDS),
    ] = math.nan


@dataclass(frozen=True, slots=True)
class Step:
    """One draft and one target pass. ``tokens`` in order of position, a rejected one directly
    before the recovered one; ``nodes``: the full draft, of which node number i is nodes[i - 1]."""

    index: int
    drafted: Annotated[int, "by the step", "tokens"]
    kept: Annotated[int, "drafted tokens in the text", "tokens"]
    draft_s: Annotated[float, "drafting", "s"]
    # target pass, rule, commit and the transfer to the host
    verify_s: Annotated[float, "target pass and verification", "s"]
    elapsed_s: Annotated[float, "from the start of the run to the end of the step", "s"]
    nodes: tuple[DraftNode, ...]
    tokens: tuple[Token, ...]

    @property
    def depth(self) -> int:
        """Of the draft; 0 without one."""
        return max((node.depth for node in self.nodes), default=0)

    @property
    def emitted(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.outcome is not Outcome.REJECTED)


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


def _described(kind: type) -> dict[str, FieldDescription]:
    described = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        about = getattr(hint, "__metadata__", ())
        meaning, unit, label, *_ = *(each for each in about if isinstance(each, str)), *3 * [""]
        column = next((each for each in about if isinstance(each, RowColumn)), None)
        if meaning:
            described[name] = FieldDescription(hint.__origin__, meaning, unit, label, column)
    return described


# by name, in order
TOKEN_FIELDS: Mapping[str, FieldDescription] = _described(Token)
NODE_FIELDS: Mapping[str, FieldDescription] = _described(DraftNode)
STEP_FIELDS: Mapping[str, FieldDescription] = _described(Step)
SUMMARY_FIELDS: Mapping[str, FieldDescription] = _described(Summary)


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
