"""The decoding loop on token ids: draft → one target pass → verdict → commit.

Every emitted token belongs to a step; the prompt's last token is the root of the first one. Random
draws are indexed by output position. A step makes one copy to the device and one copy back, without
decisions on the host in between.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor

from mars_core.decoder import ModelCache, synchronise
from mars_core.decoder.positions import Start
from mars_core.drafting.base import Drafter, Inputs
from mars_core.engine import capture
from mars_core.engine.processors import Processor
from mars_core.rules.base import Rule
from mars_core.sampling import Chance, Use, chance, words
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, StepVerdict, ancestors, certain, chain_draft, judge, walk

Outputs = TypeVar("Outputs")
MAX_IDLE = (
    8  # idle engines, enough for two comparisons of four lanes; each has its caches and captures
)


class InvalidLogitsError(RuntimeError):
    """The target's logits contain NaN or infinity."""


@dataclass(frozen=True, slots=True)
class RawStep:
    """One step in token ids. ``emitted`` is cut after an id that ends the text (``eos`` is then
    true); ``verdict.path`` is not."""

    verdict: StepVerdict
    emitted: tuple[int, ...]
    recovers: bool  # the last emitted token is not drafted
    eos: bool
    draft_s: float
    verify_s: float
    set_up_s: float  # spent on captures, not included in the other two


@dataclass(frozen=True, slots=True)
class Verifier:
    """The target's part of a step: one pass over the draft, and the decisions of the rule.
    ``parameters`` are complete and valid. Without ``telemetry`` only outcomes are computed."""

    target: ModelCache
    rule: Rule
    parameters: Mapping[str, float]
    sampling: Sampling
    mode: DraftMode
    telemetry: bool
    vocabulary: int  # number of the target's ids
    processor: Processor | None

    def chance(self, words: Tensor) -> Chance:
        """The random numbers of a step; words [positions · 3]."""
        return chance(
            words.view(-1, len(Use)), self.vocabulary, self.mode, self.sampling.temperature
        )

    def verify(self, start: Start, draft: Draft, chance: Chance) -> Tensor:
        """The result row of a step, for ``verification.walk``. ``start``: position of the draft's
        root."""
        if draft.is_chain:
            raw = self.target.forward(draft.ids, start)
        else:
            sees = ancestors(draft.parents, draft.depth)
            raw = self.target.forward_tree(draft.ids, start, draft.depths, sees)
        processor, z = self.processor, raw
        if processor is not None:
            z = processor.apply(raw, processor.rows(start, draft))
        return judge(
            z,
            draft,
            self.rule,
            self.parameters,
            self.sampling,
            self.mode,
            chance,
            self.telemetry,
            None if processor is None else raw,
        )


class Engine:
    """The parts of a run; can be reused for consecutive runs. ``captures``: the device operations
    of steps of full size are captured; target and drafter must then attend over their full
    caches."""

    def __init__(
        self, verifier: Verifier, drafter: Drafter, eos: Collection[int], *, captures: bool = False
    ) -> None:
        self.drafter = drafter
        self._verifier, self._target, self._eos = verifier, verifier.target, eos
        self._captures = captures
        self._captured: dict[Hashable, capture.Captured[Any]] = {}
        self._unmoved: tuple[
            int, ...
        ] = ()  # accepted path of the latest tree, until its cache entries are moved
        device, longest = self._target.device, drafter.longest
        self._numbers = capture.PinnedBuffer((4 + len(Use)) * (longest + 1) + 8, torch.long, device)
        self._set_up_s = 0.0  # of the current step

    @property
    def path(self) -> str:
        """How steps are computed, for the run's record."""
        return "fast layers, CUDA graphs" if self._captures else self._target.path

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int], prefix: int = 0) -> None:
        """Starts a run: reads the prompt, the prefix included, except its last token, which is
        the root of the first step. Tokens that the original run read in steps (the last ``prefix``
        ones) are read in passes of the same shape."""
        self._unmoved = ()
        if self._verifier.processor:
            self._verifier.processor.prompt = len(prompt) - prefix
        ids, begun = (
            torch.tensor(prompt[:-1], dtype=torch.long, device=self._target.device),
            len(prompt) - 1 - prefix,
        )
        features = self._target.read(ids[:begun])
        if prefix:
            features = torch.cat([features, self._target.reread(ids[begun:], begun)])
        self.drafter.begin(prompt, features)
        synchronise(self._target.device)

    def steps(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int, prefix: int = 0
    ) -> Iterator[RawStep]:
        """Steps until EOS or ``max_new_tokens``. Never drafts past the last token that may be
        emitted. The last ``prefix`` tokens of the prompt take the first output positions."""
        ids = list(prompt)
        first = len(prompt) - prefix
        end = prefix + max_new_tokens
        while (position := len(ids) - first) < end:
            limit = min(end - position - 1, self.drafter.longest)
            step = self._step(ids, limit, partial(words, seed, position))
            ids += step.emitted
            yield step
            if step.eos:
                return

    @torch.inference_mode()
    def _step(
        self, ids: Sequence[int], limit: int, words_of: Callable[[int], list[int]]
    ) -> RawStep:
        """``words_of``: number of positions → random words [positions · 3]."""
        started = time.perf_counter()
        device = self._target.device
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            inputs = self.drafter.inputs(ids, limit) if limit else Inputs(0, 0)
            verdict, draft_s = self._decide(ids, inputs, words_of(inputs.size + 1))
        ids_of, emit = verdict.nodes.column("id"), verdict.nodes.column("emit")
        emitted = [*(int(ids_of[node]) for node in verdict.path[1:]), int(emit[verdict.path[-1]])]
        end = next((at for at, token in enumerate(emitted, start=1) if token in self._eos), None)
        verify_s = time.perf_counter() - started - self._set_up_s - draft_s
        recovers = end is None or end == len(emitted)
        return RawStep(
            verdict,
            tuple(emitted[:end]),
            recovers,
            end is not None,
            draft_s,
            verify_s,
            self._set_up_s,
        )

    def _decide(
        self, ids: Sequence[int], inputs: Inputs, words: Sequence[int]
    ) -> tuple[StepVerdict, float]:
        """The verdict on a draft after ``ids``, and the drafting time in seconds; words [(size + 1)
        · 3]."""
        root, size, self._set_up_s = len(ids) - 1, inputs.size, 0.0
        numbers = inputs.numbers if size else ids[-1:]
        rows = [root - len(self._unmoved) + node for node in self._unmoved]
        sent = self._numbers.send(
            [root, inputs.start, *numbers, *words, *rows, *range(root - len(rows), root)]
        )
        sent_numbers, sent_words, moved = sent[2:].split((len(numbers), len(words), 2 * len(rows)))
        if self._verifier.processor:
            self._verifier.processor.load(ids)
        if rows:
            self._target.move(*moved.chunk(2))
        usual = size == self.drafter.longest or (size == 0 and not self.drafter.computes)
        key = (size, len(numbers)) if self._captures and usual else None
        start, drafter_start = (root, inputs.start) if key is None else (sent[0], sent[1])
        drafter, verifier = self.drafter, self._verifier
        no_q = certain(0, self._target.device)
        chance = self._ready(key and ("chance", *key), lambda: verifier.chance(sent_words))()
        draft_call = self._ready(
            key if drafter.computes and size else None,
            lambda: (
                drafter.draft(size, drafter_start, sent_numbers, chance.draft)
                if size
                else chain_draft(sent_numbers, no_q)
            ),
        )
        watch = capture.Stopwatch(self._target.device)
        watch.mark()
        draft = draft_call()
        watch.mark()
        verify_call = self._ready(
            key and ("verify", *key), lambda: verifier.verify(start, draft, chance)
        )
        row = capture.received(verify_call())
        synchronise(self._target.device)
        verdict, draft_s = walk(row.tolist()), watch.seconds()
        if not all(map(math.isfinite, verdict.nodes.column("z1"))):
            raise InvalidLogitsError(
                "The target's logits contain values that are not numbers (NaN or infinity), or every token is banned; try another dtype."
            )
        in_place = draft.is_chain or verdict.path == tuple(range(len(verdict.path)))
        self._unmoved = () if in_place else verdict.path
        self.drafter.commit(ids, verdict.path)
        return verdict, draft_s

    def _ready(self, key: Hashable, function: Callable[[], Outputs]) -> Callable[[], Outputs]:
        """``function``, or the replay of its capture under ``key``, which is created if there is
        none."""
        if key is None:
            return function
        if key not in self._captured:
            started = time.perf_counter()
            self._captured[key] = capture.Captured(function, self._target.device)
            synchronise(self._target.device)
            self._set_up_s += time.perf_counter() - started
        return self._captured[key].replay


class Engines:
    """Idle engines of a pair; the one that has been idle longest is dropped first."""

    def __init__(self) -> None:
        self._idle: OrderedDict[Hashable, Engine] = OrderedDict()
        self._lock = Lock()

    def take(self, kind: Hashable) -> Engine | None:
        """An idle engine, reserved for the caller until ``give_back``; None if there is none."""
        with self._lock:
            return self._idle.pop(kind, None)

    def give_back(self, kind: Hashable, engine: Engine) -> None:
        with self._lock:
            self._idle[kind] = engine
            while len(self._idle) > MAX_IDLE:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Frees all idle engines."""
        with self._lock:
            self._idle.clear()
