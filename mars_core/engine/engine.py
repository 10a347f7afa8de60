"""The decoding loop on token ids: draft → one target pass → verdict → commit, for all texts of an
engine at once.

Every emitted token belongs to a step; the prompt's last token is the root of the first one. Random
draws are indexed by output position. A step makes one copy to the device and one copy back, without
decisions on the host in between. What is decided about a text does not depend on the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from mars_core.decoder import ModelCache, synchronise
from mars_core.decoder.positions import Rows
from mars_core.drafting.base import Conditions, Drafter, Inputs, Request
from mars_core.engine import capture
from mars_core.engine.verifier import Verifier, VerifierKind
from mars_core.sampling import Chance, Use, words
from mars_core.verification import (
    Draft,
    StepVerdict,
    ancestors,
    certain,
    chain_draft,
    walk,
)

Outputs = TypeVar("Outputs")
_CAPTURES = 32  # of a slot


class InvalidLogitsError(RuntimeError):
    """The target's logits contain NaN or infinity."""

    def __init__(self) -> None:
        super().__init__(
            "The target's logits contain values that are not numbers (NaN or infinity), or every token is banned; try another dtype."
        )


@dataclass(frozen=True, slots=True)
class RawStep:
    """One step of a text in token ids. ``emitted`` is cut after an id that ends the text (``eos``
    is then true); ``verdict.path`` is not. The times are those of the step of all texts."""

    verdict: StepVerdict
    emitted: tuple[int, ...]
    recovers: bool  # the last emitted token is not drafted
    eos: bool
    draft_s: float
    verify_s: float
    set_up_s: float  # spent on captures, not included in the other two


@dataclass(slots=True)
class _Text:
    """A text that is being written."""

    verifier: Verifier
    ids: list[int]  # prompt and output so far
    first: int  # position of the first output token
    end: int  # tokens of the text at most
    seed: int
    # accepted path of the latest tree, until its cache entries are moved
    unmoved: Sequence[int] = ()


class _Batch(NamedTuple):
    """The texts of a step, by slot, and their numbers on the device."""

    size: int  # depth of the drafts
    sizes: Sequence[int]  # of it, what each text uses
    verifiers: Mapping[int, Verifier]
    roots: Rows  # the last token of each text
    starts: Rows  # where the drafter continues
    limits: Tensor  # [A] ``sizes``
    numbers: Tensor  # [A, m]
    words: Tensor  # [A, (size + 1) · 3]
    shape: tuple[int, int] | None  # size and m of a captured step


class Engine:
    """Decodes texts, each in a slot of its own; ended ones make room for others. ``captures``: the
    device operations of steps are captured; target and drafter must then attend over their full
    caches, and every step computes all slots. So it does where passes have one shape."""

    def __init__(
        self, target: ModelCache, drafter: Drafter, eos: Collection[int], *, captures: bool = False
    ) -> None:
        self.drafter, self.slots = drafter, target.size.slots
        self._target, self._eos, self._captures = target, eos, captures
        self._fills = captures or target.size.shapes.fixed
        self._captured: dict[Hashable, capture.Captured[Any]] = {}
        self._texts: dict[int, _Text] = {}
        # of each slot: captures read their processors' memory
        self._verifiers: dict[tuple[int, VerifierKind], Verifier] = {}
        device, positions = self._target.device, drafter.longest + 1
        numbers = self.slots * (8 + (6 + len(Use)) * positions)
        self._numbers = capture.PinnedBuffer(numbers, torch.long, device)
        self._set_up_s = 0.0  # of the current step

    @property
    def path(self) -> str:
        """How steps are computed, for the run's record."""
        return "fast layers, CUDA graphs" if self._captures else self._target.path

    @property
    def busy(self) -> bool:
        """Whether a text is being written."""
        return bool(self._texts)

    @torch.inference_mode()
    def begin(
        self,
        slot: int,
        verifier: Verifier,
        prompt: Sequence[int],
        max_new_tokens: int,
        seed: int,
        prefix: int = 0,
    ) -> None:
        """Starts a text in a free slot: reads the prompt, the prefix included, except its last
        token, which is the root of the first step. The last ``prefix`` tokens take the first output
        positions; tokens that the original run read in steps are read in passes of the same
        shape."""
        begun = len(prompt) - 1 - prefix
        verifier = self._verifiers.setdefault((slot, verifier.kind), verifier)
        if verifier.processor:
            verifier.processor.prompt = len(prompt) - prefix
        ids = torch.tensor(prompt[:-1], dtype=torch.long, device=self._target.device)
        features = self._target.read(ids[:begun], slot=slot)
        if prefix:
            features = torch.cat([features, self._target.reread(ids[begun:], begun, slot)])
        self.drafter.begin(slot, prompt, features)
        synchronise(self._target.device)
        end = len(prompt) + max_new_tokens
        self._texts[slot] = _Text(verifier, [*prompt], len(prompt) - prefix, end, seed)

    def end(self, slot: int) -> None:
        """Ends a text, if it has not ended: its slot is free."""
        self._texts.pop(slot, None)

    @torch.inference_mode()
    def step(self) -> list[tuple[int, RawStep | InvalidLogitsError]]:
        """One step of every text, by slot. A text ends with an id of ``eos``, after its last token,
        and when the target fails on it."""
        started = time.perf_counter()
        device, texts = self._target.device, self._texts
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            verdicts, draft_s = self._decide()
        verify_s = time.perf_counter() - started - self._set_up_s - draft_s
        steps: list[tuple[int, RawStep | InvalidLogitsError]] = []
        for slot, verdict in verdicts:
            if not all(map(math.isfinite, verdict.nodes.column("z1"))):
                self.end(slot)
                steps.append((slot, InvalidLogitsError()))
                continue
            raw = self._raw(verdict, draft_s, verify_s)
            text = texts[slot]
            self.drafter.commit(slot, text.ids, verdict.path)
            text.ids += raw.emitted
            if raw.eos or len(text.ids) >= text.end:
                self.end(slot)
            steps.append((slot, raw))
        return steps

    def _raw(self, verdict: StepVerdict, draft_s: float, verify_s: float) -> RawStep:
        ids_of, emit = verdict.nodes.column("id"), verdict.nodes.column("emit")
        emitted = [*(int(ids_of[node]) for node in verdict.path[1:]), int(emit[verdict.path[-1]])]
        end = next((at for at, token in enumerate(emitted, start=1) if token in self._eos), None)
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

    def _decide(self) -> tuple[list[tuple[int, StepVerdict]], float]:
        """The verdicts by slot, and the drafting time in seconds."""
        self._set_up_s = 0.0
        if len(self._captured) > _CAPTURES * self.slots:
            self._captured.clear()  # all: they read each other's results
            self._verifiers.clear()
            for slot, text in self._texts.items():
                self._verifiers[slot, text.verifier.kind] = text.verifier
        batch = self._batch()
        chances = [
            self._ready(
                batch.shape and ("chance", batch.shape, slot, verifier.drafting),
                partial(verifier.chance, batch.words[row]),
            )()
            for row, (slot, verifier) in enumerate(batch.verifiers.items())
        ]
        watch = capture.Stopwatch(self._target.device)
        draft_call = self._draft(batch, chances)
        watch.mark()
        drafts = draft_call()
        watch.mark()
        drafting = self._drafting(batch)
        logits = self._ready(
            batch.shape and ("pass", batch.shape, drafting),
            partial(_logits, self._target, drafts, batch.roots),
        )()
        rows, counts = [], []
        for row, (slot, verifier) in enumerate(batch.verifiers.items()):
            if slot not in self._texts:
                continue
            own = batch.sizes[row]
            draft = drafts[row].first(self.drafter.nodes(own), own)
            key = ("judge", batch.shape, drafting, slot, verifier.kind)
            judged = self._ready(
                key if batch.shape and own == batch.size else None,
                partial(
                    verifier.judge,
                    logits[row, : draft.size + 1],
                    batch.roots.start(row),
                    draft,
                    chances[row],
                ),
            )()
            rows.append(judged)
            counts.append(len(judged))
        received = capture.received(torch.cat(rows) if len(rows) > 1 else rows[0])
        synchronise(self._target.device)
        draft_s, results, verdicts = watch.seconds(), iter(received.tolist()), []
        for slot, count in zip(sorted(self._texts), counts, strict=True):
            verdict = walk(list(islice(results, count)))
            in_order = drafts[0].is_chain or verdict.path == tuple(range(len(verdict.path)))
            self._texts[slot].unmoved = () if in_order else verdict.path
            verdicts.append((slot, verdict))
        return verdicts, draft_s

    def _batch(self) -> _Batch:
        """The inputs of a step, on their way to the device. Where every step must have the same
        shape, empty slots repeat the numbers of another one."""
        drafter, texts = self.drafter, dict(sorted(self._texts.items()))
        requests = [
            Request(slot, text.ids, min(text.end - len(text.ids) - 1, drafter.longest))
            for slot, text in texts.items()
        ]
        inputs = Inputs([0] * len(texts), [0] * len(texts), [each.ids[-1:] for each in requests])
        if any(each.limit for each in requests):
            inputs = drafter.inputs(requests)
        size = max(inputs.sizes)
        if self._captures and (size or not drafter.computes):
            size = drafter.longest
        order = dict(zip(texts, range(len(texts)), strict=True))
        if self._fills:
            order = {slot: order.get(slot, 0) for slot in range(self.slots)}
        used = [texts[requests[at].slot] for at in order.values()]
        sizes, starts = ([part[at] for at in order.values()] for part in inputs[:2])
        numbers = [[*inputs.numbers[at]] for at in order.values()]
        if not drafter.computes:
            numbers = [[*each, *[0] * (size + 1 - len(each))] for each in numbers]
        roots, chosen = [len(text.ids) - 1 for text in used], []
        for text in used:
            chosen += words(text.seed, len(text.ids) - text.first, size + 1)
        moved = [self._moved(slot, text) for slot, text in texts.items() if text.unmoved]
        sources, targets = ([at for move in moved for at in move[side]] for side in (0, 1))
        count, flat = len(used), [number for each in numbers for number in each]
        sent = self._numbers.send([*roots, *starts, *sizes, *flat, *chosen, *sources, *targets])
        parts = (count, count, count, len(flat), len(chosen), len(sources), len(targets))
        there = sent.split(parts)
        for text in texts.values():
            if text.verifier.processor:
                text.verifier.processor.load(text.ids)
        if moved:
            self._target.move(*there[5:])
        # the step of a last token alone is not captured, where others have drafts
        on_device, slots = self._captures and (size > 0 or not drafter.computes), [*order]
        verifiers = dict(zip(slots, (text.verifier for text in used), strict=True))
        return _Batch(
            size,
            sizes,
            verifiers,
            Rows(slots, None if on_device else roots, there[0]),
            Rows(slots, None if on_device else starts, there[1]),
            there[2],
            there[3].view(count, -1),
            there[4].view(count, -1),
            (size, len(numbers[0])) if on_device else None,
        )

    def _moved(self, slot: int, text: _Text) -> tuple[Sequence[int], Sequence[int]]:
        """Entries of the accepted path of a tree, and where they belong."""
        count = len(text.unmoved)
        first = slot * self._target.size.capacity + len(text.ids) - 1 - count
        return [first + node for node in text.unmoved], range(first, first + count)

    def _draft(self, batch: _Batch, chances: Sequence[Chance]) -> Callable[[], Sequence[Draft]]:
        """The call that drafts for all texts, as deep as the longest draft."""
        if not batch.size:
            none = certain(0, self._target.device)
            return lambda: [chain_draft(ids[:1], none) for ids in batch.numbers]
        conditions = [
            Conditions(verifier.sampling, verifier.processor, each.draft)
            for verifier, each in zip(batch.verifiers.values(), chances, strict=True)
        ]
        key = ("draft", batch.shape, self._drafting(batch))
        return self._ready(
            key if batch.shape and self.drafter.computes else None,
            partial(
                self.drafter.draft,
                batch.size,
                batch.roots,
                batch.starts,
                batch.limits,
                batch.numbers,
                conditions,
            ),
        )

    def _drafting(self, batch: _Batch) -> Hashable:
        """Equal ones have the same drafts. An empty slot has the processor of another one."""
        return tuple(
            verifier.drafting if slot in self._texts or not verifier.processor else None
            for slot, verifier in batch.verifiers.items()
        )

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


def _logits(target: ModelCache, drafts: Sequence[Draft], roots: Rows) -> Tensor:
    """The target's logits after every node of the drafts, [A, N + 1, V]."""
    ids = torch.stack([draft.ids for draft in drafts])
    if drafts[0].is_chain:
        return target.chains(ids, roots)
    sees = torch.stack([ancestors(draft.parents, draft.depth) for draft in drafts])
    depths = torch.stack([draft.depths for draft in drafts])
    return target.trees(ids, roots, depths, sees)
