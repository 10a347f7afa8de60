"""What is recorded of a token, a drafted node and a step, each measurement declared once. Every value
is frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, get_type_hints

from mars_core.types import row
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


def described(kind: type) -> dict[str, FieldDescription]:
    """Return the descriptions of the fields of a kind, by name, in order."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        about = getattr(hint, "__metadata__", ())
        meaning, unit, label, *_ = *(each for each in about if isinstance(each, str)), *3 * [""]
        column = next((each for each in about if isinstance(each, RowColumn)), None)
        if meaning:
            found[name] = FieldDescription(hint.__origin__, meaning, unit, label, column)
    return found


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


TOKEN_FIELDS: Mapping[str, FieldDescription] = described(Token)
NODE_FIELDS: Mapping[str, FieldDescription] = described(DraftNode)
STEP_FIELDS: Mapping[str, FieldDescription] = described(Step)
