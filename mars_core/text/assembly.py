"""Raw steps of the engine to Steps with text: pieces, character spans, outcomes, stop strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from mars_core.engine import RawStep
from mars_core.text.detokenize import Detokenizer, Pieces
from mars_core.types import Alternative, DraftNode, Given, Outcome, Step, Token
from mars_core.verification import Node


class Assembler:
    """Builds one run's text and tokens. ``text`` is complete up to the last whole character; ``count`` tokens are in it.

    It begins with the tokens of ``prefix``; a character that these only begin belongs to the new token that completes it.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, pieces: Pieces, stop: Sequence[str], prefix: Sequence[int] = ()
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._pieces = pieces
        self._stop = tuple(stop)
        special = tokenizer.added_tokens_decoder.items()
        self._stop_ids = {number for number, token in special if token.special and str(token) in stop}
        self._steps = 0
        self.text = ""
        self.count = 0
        self.given = tuple(map(self._given, prefix))

    def step(self, raw: RawStep, elapsed_s: float) -> tuple[Step, bool]:
        """The Step, and whether a stop string ended the text in it (the text keeps the token that completes it)."""
        tokens: list[Token] = []
        stopped = False
        kept = 0
        for at in range(len(raw.emitted)):
            last = raw.recovers and at == len(raw.emitted) - 1
            if last:
                tokens += self._refused(raw, at)
            token = self._emitted(raw, at, last)
            tokens.append(token)
            kept += not last
            if stopped := self._ends(token):
                break
        step = Step(
            index=self._steps,
            drafted=len(raw.verdict.nodes) - 1,
            kept=kept,
            draft_s=raw.draft_s,
            verify_s=raw.verify_s,
            elapsed_s=elapsed_s,
            nodes=self._nodes(raw, kept),
            tokens=tuple(tokens),
        )
        self._steps += 1
        return step, stopped

    def close(self, step: Step) -> Step:
        """The last step again: what is left of an unfinished character goes to its last token."""
        rest = self._detokenizer.flush()
        self.text += rest
        last = step.tokens[-1]
        return replace(step, tokens=(*step.tokens[:-1], replace(last, end=last.end + len(rest))))

    def _given(self, id_: int) -> Given:
        start = self._append(id_)
        return Given(id_, self._pieces[id_], start, len(self.text))

    def _append(self, id_: int) -> int:
        """One more token of the text; where its characters start."""
        start = len(self.text)
        self.text += self._detokenizer.add(id_)
        self.count += 1
        return start

    def _ends(self, token: Token) -> bool:
        """Whether a stop string ends within the characters of this token, or is its name: special tokens have no characters."""
        return token.id in self._stop_ids or any(
            stop in self.text[max(0, token.start - len(stop) + 1) :] for stop in self._stop
        )

    def _nodes(self, raw: RawStep, kept: int) -> tuple[DraftNode, ...]:
        """The whole draft; what the text does not contain, because it ended before, counts as rejected."""
        nodes, path = raw.verdict.nodes, raw.verdict.path[1 : kept + 1]
        depths = [0]
        drafted = []
        columns = zip(nodes.parents, *(nodes.column(name) for name in ("id", "p", "q")), strict=True)
        for number, (parent, id_, p, q) in enumerate(columns):
            if number:
                depths.append(depths[parent] + 1)
                outcome = _outcome(nodes[number]) if number in path else Outcome.REJECTED
                drafted.append(DraftNode(int(id_), self._pieces[int(id_)], parent, depths[-1], p, q, outcome))
        return tuple(drafted)

    def _emitted(self, raw: RawStep, at: int, last: bool) -> Token:
        """The step's token number ``at``, judged by the logits after path[at]."""
        verdict = raw.verdict
        parent = verdict.path[at]
        start = self._append(raw.emitted[at])
        if not last:
            number = verdict.path[at + 1]
            return self._drafted(raw, number, _outcome(verdict.nodes[number]), at, start)
        before = verdict.nodes[parent]
        outcome = Outcome.RECOVERED if verdict.children[parent] else Outcome.BONUS
        judged = _Judged(0, before.emit, before.emit_p, math.nan, before.emit_rank, before.emit_logprob, 0.0)
        return self._token(before, parent, judged, outcome, at, start)

    def _refused(self, raw: RawStep, at: int) -> list[Token]:
        """The drafted tokens that the recovered one replaces."""
        children = raw.verdict.children[raw.verdict.path[at]]
        return [self._drafted(raw, child, Outcome.REJECTED, at, len(self.text)) for child in children]

    def _drafted(self, raw: RawStep, number: int, outcome: Outcome, at: int, start: int) -> Token:
        node = raw.verdict.nodes[number]
        judged = _Judged(number, node.id, node.p, node.q, node.rank, node.logprob, node.forgiveness)
        return self._token(raw.verdict.nodes[int(node.parent)], int(node.parent), judged, outcome, at, start)

    def _token(self, before: Node, parent: int, judged: _Judged, outcome: Outcome, at: int, start: int) -> Token:
        rejected = outcome is Outcome.REJECTED
        top_z, top_ids = before.top_z or (math.nan,), before.top_ids or (-1,)
        z2 = top_z[1] if len(top_z) > 1 else -math.inf
        return Token(
            position=self.count - (not rejected),
            step=self._steps,
            draft_position=at + 1,
            node=judged.number,
            parent=parent,
            outcome=outcome,
            id=int(judged.id),
            piece=self._pieces[int(judged.id)],
            start=start,
            end=start if rejected else len(self.text),
            z1=before.z1,
            z2=z2,
            id1=int(top_ids[0]),
            id2=int(top_ids[min(1, len(top_ids) - 1)]),
            r=z2 / before.z1 if before.z1 > 0 else math.nan,
            gap=before.z1 - z2,
            own=int(before.own),
            own_piece=self._pieces[int(before.own)],
            p=judged.p,
            q=judged.q,
            rank=int(judged.rank) if math.isfinite(judged.rank) else 0,
            entropy=before.entropy,
            forgiveness=judged.forgiveness,
            u=before.u,
            coin=before.coin,
            edge=before.edge,
            tv=before.tv,
            kl=before.kl,
            logprob=judged.logprob,
            top=tuple(
                Alternative(int(i), self._pieces[int(i)], chance)
                for i, chance in zip(before.top_ids, before.top_p, strict=True)
            ),
        )


class _Judged(NamedTuple):
    """What of a token belongs to itself, not to the place at which it stands."""

    number: int  # of its node, 0 where it was not drafted
    id: float
    p: float
    q: float
    rank: float
    logprob: float
    forgiveness: float


def _outcome(node: Node) -> Outcome:
    return Outcome.ACCEPTED if node.strict else Outcome.RELAXED
