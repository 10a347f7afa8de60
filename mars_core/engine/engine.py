"""The loop: draft → one target pass → verdict → commit. Knows token ids only: no text, no screen, no database, no log.

Every emitted token belongs to a step: the prompt's last token is the root of the first one. Draws are indexed by output position.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from mars_core.decoder import ModelCache, synchronise
from mars_core.decoder.direct_cache import DirectCache
from mars_core.drafting.base import Drafter, FixedDrafter
from mars_core.engine.recording import FixedSteps
from mars_core.rules.base import Rule
from mars_core.sampling import step_uniforms, uniforms
from mars_core.tree import ancestors
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
    set_up_s: float  # spent on recordings, no part of the two


class Engine:
    """One run's parts, or those of runs one after the other. ``parameters`` are complete and valid. Without ``meter`` nothing is
    measured but times and outcomes. ``fixed``: full steps are of fixed shape, and recorded on CUDA, where target and drafter can."""

    def __init__(
        self, target: ModelCache, drafter: Drafter, rule: Rule, parameters: Mapping[str, float], sampling: Sampling,
        mode: DraftMode, eos: Collection[int], *, meter: bool = True, fixed: bool = False,
    ) -> None:  # fmt: skip
        self.target, self.drafter = target, drafter
        self._rule, self._parameters, self._sampling, self._mode = rule, parameters, sampling, mode
        self._eos, self._meter = eos, meter
        self._moves: tuple[int, ...] = ()  # the path of the latest tree, where it is still to be put in place
        self._fixed: FixedSteps | None = None
        if fixed and isinstance(target, DirectCache):
            self._fixed = FixedSteps(target, cast(FixedDrafter, drafter), self._read, self._judge)

    @property
    def path(self) -> str:
        """How steps are computed, for the run's record."""
        if self._fixed is None:
            return self.target.path
        return "fast layers, CUDA graphs" if self.target.device.type == "cuda" else "fast layers, fixed shapes"

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int]) -> None:
        """Begins a run: reads all of the prompt, given tokens included, but its last token, which is the root of the first step."""
        self.target.keep(0)
        self._moves = ()
        if len(prompt) > 1:
            self.target.read(torch.tensor(prompt[:-1], device=self.target.device))
        self.drafter.prefill(prompt)
        synchronise(self.target.device)

    def steps(self, prompt: Sequence[int], max_new_tokens: int, seed: int, given: int = 0) -> Iterator[RawStep]:
        """Steps until EOS or ``max_new_tokens``. Never drafts past the last token that may be emitted.

        The last ``given`` tokens of the prompt have the first output positions.
        """
        ids = list(prompt)
        first = len(prompt) - given
        end = given + max_new_tokens
        draws = uniforms(seed, end)
        while (position := len(ids) - first) < end:
            limit = end - position - 1
            u = step_uniforms(draws, seed, position, min(limit, self.drafter.longest) + 1)
            step = self._step(ids, limit, u)
            ids += step.emitted
            yield step
            if step.eos:
                return

    @torch.inference_mode()
    def _step(self, ids: list[int], limit: int, u: torch.Tensor) -> RawStep:
        started = time.perf_counter()
        verdict, draft_s, set_up_s = self._fixed_step(ids, limit, u) or self._free_step(ids, limit, u)
        emitted = [int(verdict.nodes[node].id) for node in verdict.path[1:]] + [
            int(verdict.nodes[verdict.path[-1]].emit)
        ]
        end = next((at for at, token in enumerate(emitted, start=1) if token in self._eos), None)
        return RawStep(
            verdict=verdict,
            emitted=tuple(emitted[:end]),
            recovers=end is None or end == len(emitted),
            eos=end is not None,
            draft_s=draft_s,
            verify_s=time.perf_counter() - started - set_up_s - draft_s,
            set_up_s=set_up_s,
        )

    def _free_step(self, ids: list[int], limit: int, u: torch.Tensor) -> tuple[Verdict, float, float]:
        """A step of any shape, the seconds until it was drafted, and those spent on recordings."""
        started = time.perf_counter()
        if self._moves:
            self.target.move(self._moves, len(ids) - 1 - len(self._moves))
            self._moves = ()
        u = u.to(self.target.device)
        draft = self.drafter.propose(ids, limit, u)
        synchronise(self.target.device)
        drafted = time.perf_counter()
        verdict = _walked(self._judge(self._read(draft), draft, u[: draft.depth + 1]).tolist())
        self.target.keep_path(len(ids) - 1, verdict.path)
        self.drafter.commit(verdict.path)
        synchronise(self.target.device)
        return verdict, drafted - started, 0.0

    def _fixed_step(self, ids: list[int], limit: int, u: torch.Tensor) -> tuple[Verdict, float, float] | None:
        """A step of full size, if steps are fixed and the drafter can make one."""
        if self._fixed is None or limit < self.drafter.longest:
            return None
        drafter = cast(FixedDrafter, self.drafter)
        numbers = drafter.numbers(ids)
        if numbers is None:
            return None
        answer, draft_s = self._fixed.step(ids, numbers, self._moves, u)
        verdict = _walked(answer)
        self._moves = verdict.path if drafter.branches else ()
        self.target.length = len(ids) - 1 + len(verdict.path)
        drafter.commit_fixed(ids, verdict.path)
        return verdict, draft_s, self._fixed.set_up_s

    def _read(self, draft: Draft) -> torch.Tensor:
        """The target's raw logits after every node."""
        if draft.is_chain:
            return self.target.forward(draft.ids)
        return self.target.forward_tree(draft.ids, draft.depths, ancestors(draft.parents, draft.depth))

    def _judge(self, logits: torch.Tensor, draft: Draft, u: torch.Tensor) -> torch.Tensor:
        return judge(logits, draft, self._rule, self._parameters, self._sampling, self._mode, u, self._meter)


def _walked(answer: list[float]) -> Verdict:
    verdict = walk(answer)
    if not all(map(math.isfinite, verdict.nodes.column("z1"))):
        raise InvalidLogitsError(
            "The target's logits contain values that are not numbers (NaN or infinity); try another dtype."
        )
    return verdict
