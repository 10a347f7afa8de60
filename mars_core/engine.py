"""The loop: draft → one target pass → verdict → commit. Knows token ids only: no text, no screen, no database, no log.

Every emitted token belongs to a step: the prompt's last token is the root of the first one. Uniforms are indexed by output position.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from mars_core.drafting.base import Drafter
from mars_core.model_cache import ModelCache, synchronise
from mars_core.rules.base import Rule
from mars_core.sampling import uniforms
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, Verdict, judge, judge_sampled, walk


class InvalidLogitsError(RuntimeError):
    """The target computed something that is not a number."""


@dataclass(frozen=True, slots=True)
class RawStep:
    """One step in token ids. ``verdict.path`` is cut where the text ends (EOS or length); ``ends`` says that it does."""

    verdict: Verdict
    emitted: tuple[int, ...]
    recovers: bool  # the last emitted token is not drafted
    eos: bool
    draft_s: float
    verify_s: float


@dataclass(frozen=True, slots=True)
class Engine:
    """One run's parts. ``drafter`` and ``target`` are fresh; ``parameters`` are complete and valid."""

    target: ModelCache
    drafter: Drafter
    rule: Rule
    parameters: Mapping[str, float]
    sampling: Sampling
    mode: DraftMode
    eos: Collection[int]
    seed: int

    def prefill(self, prompt: Sequence[int]) -> None:
        """Reads all of the prompt but its last token, which is the root of the first step."""
        with torch.inference_mode():
            if len(prompt) > 1:
                self.target.forward(torch.tensor(prompt[:-1], device=self.target.device), logits=1)
            self.drafter.prefill(prompt)
            synchronise(self.target.device)

    def steps(self, prompt: Sequence[int], max_new_tokens: int) -> Iterator[RawStep]:
        """Steps until EOS or ``max_new_tokens``. Never drafts past the last token that may be emitted."""
        ids = list(prompt)
        u = uniforms(self.seed, max_new_tokens).to(self.target.device)
        while (position := len(ids) - len(prompt)) < max_new_tokens:
            step = self._step(ids, max_new_tokens - position - 1, u[position:])
            ids += step.emitted
            yield step
            if step.eos:
                return

    @torch.inference_mode()
    def _step(self, ids: list[int], limit: int, u: torch.Tensor) -> RawStep:
        started = time.perf_counter()
        draft = self.drafter.propose(ids, limit, u)
        synchronise(self.target.device)
        drafted = time.perf_counter()
        verdict = self._verify(draft, u[: max(draft.tree.depths) + 1])
        kept = len(verdict.path) - 1
        self.target.keep(len(ids) + kept)
        self.drafter.commit(kept)
        synchronise(self.target.device)
        verified = time.perf_counter()
        emitted = [int(verdict.nodes[node].id) for node in verdict.path[1:]] + [
            int(verdict.nodes[verdict.path[-1]].emit)
        ]
        end = next((at for at, token in enumerate(emitted, start=1) if token in self.eos), None)
        return RawStep(
            verdict=verdict,
            emitted=tuple(emitted[:end]),
            recovers=end is None or end == len(emitted),
            eos=end is not None,
            draft_s=drafted - started,
            verify_s=verified - drafted,
        )

    def _verify(self, draft: Draft, u: torch.Tensor) -> Verdict:
        logits = self.target.forward(draft.ids)
        decide = judge_sampled if self.mode is DraftMode.SAMPLED and draft.law is not None else judge
        rows = decide(logits, draft, self.rule, self.parameters, self.sampling, u)
        verdict = walk(rows.tolist(), draft.tree)
        if any(math.isnan(node.top_z[0]) or math.isinf(node.top_z[0]) for node in verdict.nodes):
            raise InvalidLogitsError("The target's logits contain values that are not numbers; try another dtype.")
        return verdict
