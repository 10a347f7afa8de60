"""The tokens of an answer of a server, as far as it reports them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from evaluation.served.answer import Answer, Part
from evaluation.served.choice import Position
from mars_core.types import (
    TOKEN_FIELDS,
    UNKNOWN,
    Alternative,
    Outcome,
    Sampling,
    StopReason,
    Token,
)

NAN = math.nan
STOPS = {
    "stop": StopReason.EOS,
    "eos": StopReason.EOS,
    "tool_calls": StopReason.EOS,
    "length": StopReason.LENGTH,
    "limit": StopReason.LENGTH,
    "word": StopReason.STOP_STRING,
}  # of servers
MOST_ALTERNATIVES = 5  # of a token that are kept
LEFT_OUT = 1e-3  # probability of all unlisted tokens, at most, where an entropy is known


# by type of a field, the value of a token of which nothing is known
_EMPTY: dict[Any, Any] = {float: NAN, int: UNKNOWN, str: "", Outcome: Outcome.BONUS}
_UNREPORTED = Token(**{name: _EMPTY.get(each.kind, ()) for name, each in TOKEN_FIELDS.items()})


def token_of(id_: int = UNKNOWN, piece: str = "") -> Token:
    """Return a token of which nothing else is known."""
    return replace(_UNREPORTED, id=id_, piece=piece)


def tokens_of(answer: Answer, sampling: Sampling) -> list[Token]:
    """Return ids and pieces, as far as the server reports both for every token; else one of the
    two, the parts of a stream where there are as many, or none."""
    names = answer.names or [UNKNOWN] * len(answer.logprobs or ())
    ids = [name if isinstance(name, int) else UNKNOWN for name in names]
    if not answer.logprobs:
        return [token_of(id_) for id_ in ids] or _of_parts(answer, sampling)
    return [
        _served_token(id_, each, sampling) for id_, each in zip(ids, answer.logprobs, strict=True)
    ]


def _of_parts(answer: Answer, sampling: Sampling) -> list[Token]:
    """Take each part of a stream as a token, where that makes as many as the server counted: with
    the end of the turn, of which llama.cpp sends nothing."""
    count = count_of(answer.usage.get("completion_tokens"))
    ends = len(answer.parts) == count - 1 and STOPS.get(answer.finish_reason) is StopReason.EOS
    if not answer.parts or len(answer.parts) + ends != count:
        return []
    tokens = [of_part(part, sampling) for part in answer.parts]
    return [*tokens, *[token_of()] * ends]


def of_part(part: Part, sampling: Sampling) -> Token:
    """Return what an event of a stream adds as one token, with its numbers where it reports one."""
    if len(part.positions) != 1:
        return token_of(piece=part.text)
    key = part.positions[0].key
    token = _served_token(key if isinstance(key, int) else UNKNOWN, part.positions[0], sampling)
    return replace(token, piece=part.text)


def _served_token(id_: int, position: Position, sampling: Sampling) -> Token:
    """Return a token with its numbers. Probabilities of the raw logits are those of the run at
    temperatures 0 and 1 without warpers."""
    top = position.top
    gap = top[0].logprob - top[1].logprob if top[1:] else NAN
    as_sampled = sampling == Sampling(sampling.temperature) and sampling.temperature in (0, 1)
    alternatives = [
        Alternative(each.key if isinstance(each.key, int) else UNKNOWN, each.token, p)
        for each in top
        if as_sampled and (p := math.exp(each.logprob))
    ]
    same = [number for number, each in enumerate(top, 1) if each[::3] == position[::3]]
    return replace(
        token_of(id_, position.token),
        logprob=position.logprob,
        gap=gap,
        edge=gap if sampling.temperature == 0 else NAN,
        top=tuple(alternatives[:MOST_ALTERNATIVES]),
        rank=same[0] if same else UNKNOWN,
        entropy=_entropy([each.p for each in alternatives]),
    )


def _entropy(listed: Sequence[float]) -> float:
    """Return the entropy of these probabilities and the rest as one token: that of all, to about
    0.01 nats, where they leave out at most LEFT_OUT; else nan."""
    rest = max(0.0, 1 - math.fsum(listed))
    if rest > LEFT_OUT:
        return NAN
    return -math.fsum(p * math.log(p) for p in (*listed, rest) if p)


def through_stop(tokens: Sequence[Token], stops: Sequence[str]) -> int:
    """Return the number of tokens up to the one that completes a stop string; 0 where none does."""
    read = accumulate(token.piece for token in tokens)
    return next(
        (number for number, text in enumerate(read, 1) if any(stop in text for stop in stops)), 0
    )


def count_of(value: Any) -> int:
    """Return a count; UNKNOWN for what is none, or one that no database column holds."""
    return value if type(value) is int and 0 <= value < 2**31 else UNKNOWN
