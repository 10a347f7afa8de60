"""Converts raw steps of the engine to Steps with text: pieces, character spans, outcomes, stop
strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from mars_core.engine import RawStep
from mars_core.text.detokenize import Detokenizer, Pieces
from mars_core.types import Alternative, DraftNode, Outcome, PrefixToken, Step, Token
from mars_core.verification import RowToken


class Assembler:
    """Builds one run's text and tokens. ``text`` is complete up to the last complete character;
    ``count`` tokens are in it. It begins with the tokens of ``prefix``; a character that they leave
    incomplete belongs to the new token that completes it."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        pieces: Pieces,
        stop: Sequence[str],
        prefix: Sequence[int] = (),
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._pieces = pieces
        self._stop = tuple(stop)
        special = tokenizer.added_tokens_decoder.items()
        self._stop_ids = {
            number for number, token in special if token.special and str(token) in stop
        }
        self._steps = 0
        self.text = ""
        self.count = 0
        # In this order: a token's end is known once it has been appended.
        self.given = tuple(
            PrefixToken(id_, pieces[id_], self._append(id_), len(self.text)) for id_ in prefix
        )

    def step(self, raw: RawStep, elapsed_s: float) -> tuple[Step, bool]:
        """Return the Step, and whether a stop string ended the text in it (the text keeps the token
        that completes it)."""
        tokens: list[Token] = []
        accepted, stopped = 0, False
        for at in range(len(raw.emitted)):
            last = raw.recovers and at == len(raw.emitted) - 1
            if last:  # the drafted tokens that the recovered one replaces
                nodes, start = raw.verdict.nodes, len(self.text)
                children = nodes.children[raw.verdict.path[at]]
                tokens += [
                    self._token(nodes.drafted(each), each, Outcome.REJECTED, at, start)
                    for each in children
                ]
            tokens.append(self._emitted(raw, at, last))
            accepted += not last
            if stopped := self._ends(tokens[-1]):
                break
        step = Step(
            index=self._steps,
            drafted=len(raw.verdict.nodes) - 1,
            kept=accepted,
            draft_s=raw.draft_s,
            verify_s=raw.verify_s,
            elapsed_s=elapsed_s,
            nodes=self._nodes(raw, accepted),
            tokens=tuple(tokens),
        )
        self._steps += 1
        return step, stopped

    def close(self, step: Step) -> Step:
        """Return the last step, with the rest of an unfinished character added to its last token."""
        rest = self._detokenizer.flush()
        self.text += rest
        last = step.tokens[-1]
        return replace(step, tokens=(*step.tokens[:-1], replace(last, end=last.end + len(rest))))

    def _append(self, id_: int) -> int:
        """Adds a token to the text; returns the start of its characters."""
        start = len(self.text)
        self.text += self._detokenizer.add(id_)
        self.count += 1
        return start

    def _ends(self, token: Token) -> bool:
        """Return whether a stop string ends within the characters of this token, or equals its
        name: special tokens have no characters."""
        ends = (stop in self.text[max(0, token.start - len(stop) + 1) :] for stop in self._stop)
        return token.id in self._stop_ids or any(ends)

    def _nodes(self, raw: RawStep, accepted: int) -> tuple[DraftNode, ...]:
        """Return the full draft; nodes after the end of the text count as rejected."""
        nodes, path = raw.verdict.nodes, raw.verdict.path[1 : accepted + 1]
        depths, drafted = [0], []
        columns = zip(
            nodes.parents,
            *(nodes.column(name) for name in ("id", "p", "q", "strict", "odds")),
            strict=True,
        )
        for number, (parent, id_, p, q, strict, odds) in enumerate(columns):
            if number:
                depths.append(depths[parent] + 1)
                outcome = _accepted_as(strict) if number in path else Outcome.REJECTED
                drafted.append(
                    DraftNode(
                        int(id_), self._pieces[int(id_)], parent, depths[-1], p, q, outcome, odds
                    )
                )
        return tuple(drafted)

    def _emitted(self, raw: RawStep, at: int, last: bool) -> Token:
        """Return the step's token number ``at``, decided by the logits after path[at]."""
        verdict, start = raw.verdict, self._append(raw.emitted[at])
        if not last:
            number = verdict.path[at + 1]
            token = verdict.nodes.drafted(number)
            return self._token(token, number, _accepted_as(token.strict), at, start)
        parent = verdict.path[at]
        outcome = Outcome.RECOVERED if verdict.nodes.children[parent] else Outcome.BONUS
        return self._token(verdict.nodes.emitted(parent), 0, outcome, at, start)

    def _token(self, token: RowToken, number: int, outcome: Outcome, at: int, start: int) -> Token:
        """``number``: of the node, 0 if it was not drafted."""
        rejected, measured = outcome is Outcome.REJECTED, token.measured
        z1 = measured["z1"]
        id1, id2, *_ = map(int, token.top_ids or (-1, -1))
        z2 = token.top_z[1] if token.top_z else -math.inf
        alternatives = zip(token.top_ids, token.top_p, strict=True)
        return Token(
            **measured,
            position=self.count - (not rejected),
            step=self._steps,
            draft_position=at + 1,
            node=number,
            outcome=outcome,
            piece=self._pieces[measured["id"]],
            start=start,
            end=start if rejected else len(self.text),
            z2=z2,
            id1=id1,
            id2=id2,
            r=z2 / z1 if z1 > 0 else math.nan,
            gap=z1 - z2,
            own_piece=self._pieces[measured["own"]],
            u=math.nan,
            rule_logprob=_ln(token.mass),
            top=tuple(Alternative(int(id_), self._pieces[int(id_)], p) for id_, p in alternatives),
        )


def _ln(x: float) -> float:
    return math.log(x) if x > 0 else math.nan if math.isnan(x) else -math.inf


def _accepted_as(strict: float) -> Outcome:
    """Return the outcome of a token that the rule keeps."""
    return Outcome.ACCEPTED if strict else Outcome.RELAXED
