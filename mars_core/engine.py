"""The loop: draft → one target pass → verdict → commit. Knows token ids only: no text, no screen, no database, no log.

Every emitted token belongs to a step: the prompt's last token is the root of the first one. Draws are indexed by output position.
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
from mars_core.sampling import step_uniforms, uniforms
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, Verdict, judge, walk


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
    """One run's parts. ``drafter`` and ``target`` are fresh; ``parameters`` are complete and valid. Without ``meter`` nothing is
    measured but times and outcomes."""

    target: ModelCache
    drafter: Drafter
    rule: Rule
    parameters: Mapping[str, float]
    sampling: Sampling
    mode: DraftMode
    eos: Collection[int]
    seed: int
    meter: bool = True

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
        draws = uniforms(self.seed, max_new_tokens).to(self.target.device)
        while (position := len(ids) - len(prompt)) < max_new_tokens:
            limit = max_new_tokens - position - 1
            u = step_uniforms(draws, self.seed, position, min(limit, self.drafter.longest) + 1)
            step = self._step(ids, limit, u)
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
        verdict = self._verify(draft, u[: draft.depth + 1])
        if draft.is_chain:
            self.target.keep(len(ids) + len(verdict.path) - 1)
        else:
            self.target.keep_path(len(ids) - 1, verdict.path)
        self.drafter.commit(verdict.path)
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
        logits = self._read(draft)
        rows = judge(logits, draft, self.rule, self.parameters, self.sampling, self.mode, u, self.meter)
        verdict = walk(rows.tolist())
        if not all(math.isfinite(node.z1) for node in verdict.nodes):
            raise InvalidLogitsError("The target's logits contain values that are not numbers; try another dtype.")
        return verdict

    def _read(self, draft: Draft) -> torch.Tensor:
        """The target's raw logits after every node."""
        if draft.is_chain:
            return self.target.forward(draft.ids)
        return self.target.forward_tree(draft.ids, draft.parents, draft.depths)
