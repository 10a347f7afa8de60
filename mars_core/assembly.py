"""Raw steps of the engine to Steps with text: pieces, character spans, outcomes, stop strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from mars_core.detokenize import Detokenizer, Pieces
from mars_core.engine import RawStep
from mars_core.types import Alternative, Outcome, Step, Token
from mars_core.verification import Node


class Assembler:
    """Builds one run's text and tokens. ``text`` is complete up to the last whole character; ``count`` tokens are in it."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._pieces = Pieces(tokenizer)
        self._stop = tuple(stop)
        self._steps = 0
        self.text = ""
        self.count = 0

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
            drafted_ids=tuple(int(node.id) for node in raw.verdict.nodes[1:]),
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

    def _ends(self, token: Token) -> bool:
        recent = self.text[max(0, token.start - max(map(len, self._stop), default=0)) :]
        return any(stop in recent for stop in self._stop)

    def _emitted(self, raw: RawStep, at: int, last: bool) -> Token:
        """The step's token number ``at``, judged by the logits after path[at]."""
        verdict = raw.verdict
        before = verdict.nodes[verdict.path[at]]
        start = len(self.text)
        self.text += self._detokenizer.add(raw.emitted[at])
        self.count += 1
        if not last:
            node = verdict.nodes[verdict.path[at + 1]]
            outcome = Outcome.ACCEPTED if node.strict else Outcome.RELAXED
            return self._token(before, node.id, node.p, node.q, node.rank, node.forgiveness, outcome, at, start)
        outcome = Outcome.RECOVERED if verdict.children[verdict.path[at]] else Outcome.BONUS
        return self._token(before, before.emit, before.emit_p, math.nan, before.emit_rank, 0.0, outcome, at, start)

    def _refused(self, raw: RawStep, at: int) -> list[Token]:
        """The drafted tokens that the recovered one replaces."""
        before = raw.verdict.nodes[raw.verdict.path[at]]
        nodes = [raw.verdict.nodes[child] for child in raw.verdict.children[raw.verdict.path[at]]]
        start = len(self.text)
        return [self._token(before, n.id, n.p, n.q, n.rank, n.forgiveness, Outcome.REJECTED, at, start) for n in nodes]

    def _token(
        self, before: Node, token: float, p: float, q: float, rank: float, forgiveness: float, outcome: Outcome,
        at: int, start: int,
    ) -> Token:  # fmt: skip
        rejected = outcome is Outcome.REJECTED
        z1, z2 = before.top_z[0], before.top_z[1] if len(before.top_z) > 1 else -math.inf
        return Token(
            position=self.count - (not rejected),
            step=self._steps,
            draft_position=at + 1,
            outcome=outcome,
            id=int(token),
            piece=self._pieces[int(token)],
            start=start,
            end=start if rejected else len(self.text),
            z1=z1,
            z2=z2,
            id1=int(before.top_ids[0]),
            id2=int(before.top_ids[min(1, len(before.top_ids) - 1)]),
            r=z2 / z1 if z1 > 0 else math.nan,
            gap=z1 - z2,
            own=int(before.own),
            own_piece=self._pieces[int(before.own)],
            p=p,
            q=q,
            rank=int(rank),
            entropy=before.entropy,
            forgiveness=forgiveness,
            u=before.u,
            edge=before.edge,
            tv=before.tv,
            top=tuple(
                Alternative(int(i), self._pieces[int(i)], chance)
                for i, chance in zip(before.top_ids, before.top_p, strict=True)
            ),
        )
