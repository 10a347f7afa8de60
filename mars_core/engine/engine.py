"""The decoding loop on token ids: draft → one target pass → verdict → commit, for all texts of an
engine at once.

Every emitted token belongs to a step; the prompt's last token is the root of the first one. Random
draws are indexed by output position. A step makes one copy to the device and one copy back, without
decisions on the host in between. What is decided about a text does not depend on the others.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice

import torch
from torch import Tensor

from mars_core.capture import Graphs, Stopwatch, received
from mars_core.decoder import ModelCache, synchronise
from mars_core.decoder.positions import Rows
from mars_core.drafting.base import Drafter, TextGroup
from mars_core.engine.inputs import InputBuffer, StepInputs, WrittenText
from mars_core.engine.raw_step import InvalidLogitsError, RawStep
from mars_core.engine.verifier import TargetPass, Verifier
from mars_core.verification import (
    Draft,
    RunState,
    StepVerdict,
    ancestors,
    chain_draft,
    walk,
)

_CAPTURES = 32  # of a slot


class Engine:
    """Decodes texts, each in a separate slot; ended ones make room for others. ``captures``: the
    device operations of steps are captured; target and drafter must then attend over their full
    caches, and every step computes all slots. So it does where passes have one shape."""

    def __init__(
        self, target: ModelCache, drafter: Drafter, eos: Collection[int], *, captures: bool = False
    ) -> None:
        self.drafter, self.slots = drafter, target.size.slots
        self._target, self._eos, self._captures = target, eos, captures
        self._fills = captures or target.size.shapes.fixed
        self._graphs = Graphs(target.device, _CAPTURES * self.slots)
        self._texts: dict[int, WrittenText] = {}
        # of each slot, with captures, which read their processors' memory
        self._verifiers: dict[tuple[int, Hashable], Verifier] = {}
        self._buffer = InputBuffer(self.slots, drafter.longest, target.device)

    @property
    def path(self) -> str:
        """How steps are computed, for the run's record."""
        return f"{self._target.path}, {'CUDA graphs' if self._captures else 'eager'}"

    @torch.inference_mode()
    def begin(
        self,
        slot: int,
        verifier: Verifier,
        prompt: Sequence[int],
        max_new_tokens: int,
        seed: int,
        prefix: int = 0,
        spent: Sequence[float] = (),
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts a text in a free slot: reads the prompt, the prefix included, except its last
        token, which is the root of the first step. The last ``prefix`` tokens take the first output
        positions; tokens that the original run read in steps are read in passes of the same
        shape. ``spent``: TV and regret of the prefix. ``between``: as of ``DecoderCache.read``."""
        begun, terms = len(prompt) - 1 - prefix, verifier.terms
        if self._captures:
            verifier = self._verifiers.setdefault((slot, verifier.kind), verifier)
        if verifier.processor:
            verifier.processor.prompt = len(prompt) - prefix
        ids = torch.tensor(prompt[:-1], dtype=torch.long, device=self._target.device)
        features = self._target.read(ids[:begun], slot=slot, between=between)
        if prefix:
            steps = self._target.read(ids[begun:], begun, slot, in_steps=True, between=between)
            features = torch.cat([features, steps])
        self.drafter.begin(slot, prompt, features, prefix)
        synchronise(self._target.device)
        end = len(prompt) + max_new_tokens
        first, thinking = len(prompt) - prefix, terms.span is not None and terms.span.inside(prompt)
        state = RunState(prefix, thinking, *spent).planned(terms)
        self._texts[slot] = WrittenText(verifier, terms, [*prompt], first, end, seed, state)

    def end(self, slot: int) -> None:
        """Ends a text, if it has not ended: its slot is free."""
        self._texts.pop(slot, None)

    @torch.inference_mode()
    def step(self) -> list[tuple[int, RawStep | InvalidLogitsError]]:
        """Take one step of every text, by slot. A text ends with an id of ``eos``, after its last
        token, and when the target fails on it."""
        started = time.perf_counter()
        device, texts = self._target.device, self._texts
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            verdicts, draft_s = self._verdicts()
        verify_s = time.perf_counter() - started - self._graphs.set_up_s - draft_s
        times = draft_s, verify_s, self._graphs.set_up_s
        steps: list[tuple[int, RawStep | InvalidLogitsError]] = []
        for slot, verdict in verdicts:
            if not all(map(math.isfinite, verdict.nodes.column("z1"))):
                self.end(slot)
                steps.append((slot, InvalidLogitsError()))
                continue
            raw = RawStep.of(verdict, self._eos, times)
            text = texts[slot]
            self.drafter.commit(slot, text.ids, verdict.path)
            text.ids += raw.emitted
            text.state = text.state.after(verdict, raw.emitted, text.terms)
            if raw.eos or len(text.ids) >= text.end:
                self.end(slot)
            steps.append((slot, raw))
        return steps

    def _verdicts(self) -> tuple[list[tuple[int, StepVerdict]], float]:
        """Return the verdicts by slot, and the drafting time in seconds."""
        if self._graphs.begin_step():
            self._verifiers = {
                (slot, text.verifier.kind): text.verifier for slot, text in self._texts.items()
            }
        step = self._inputs()
        groups = self._groups(step)
        watch = Stopwatch(self._target.device)
        draft_call = self._draft(step, [*groups.values()])
        watch.mark()
        draft = draft_call()
        watch.mark()
        logits = self._graphs.ready(
            step.key and ("pass", step.key),
            partial(_logits, self._target, draft, step.drafts.roots),
        )()
        features = self._target.features
        read = TargetPass(draft, step.drafts.roots, step.states, logits, features)
        rows = self._decide(step, groups, read)
        back = received(torch.cat([*rows.values()]))
        synchronise(self._target.device)
        draft_s, results, verdicts = watch.seconds(), iter(back.tolist()), []
        for slot, row in rows.items():
            verdict = walk([*islice(results, len(row))])
            in_order = draft.is_chain or verdict.path == tuple(range(len(verdict.path)))
            self._texts[slot].unmoved = () if in_order else verdict.path
            verdicts.append((slot, verdict))
        return sorted(verdicts), draft_s

    def _groups(self, step: StepInputs) -> dict[Hashable, TextGroup]:
        """Return the texts by how they are drafted, with their random numbers."""
        rows_of, groups = defaultdict[Hashable, list[int]](list), dict[Hashable, TextGroup]()
        verifiers = [*step.verifiers.values()]
        for row, verifier in enumerate(verifiers):
            rows_of[verifier.drafting].append(row)
        keys: dict[Hashable, Hashable] = {
            drafting: step.key and ("chance", step.key, drafting, tuple(rows))
            for drafting, rows in rows_of.items()
        }
        for drafting in self._graphs.in_order(keys):
            rows = rows_of[drafting]
            first = verifiers[rows[0]]
            chance = self._graphs.ready(keys[drafting], partial(first.chance, step.words, rows))()
            processors = [each for row in rows if (each := verifiers[row].processor)]
            groups[drafting] = TextGroup(rows, first.terms.sampling, processors, chance)
        return groups

    def _decide(
        self, step: StepInputs, groups: Mapping[Hashable, TextGroup], read: TargetPass
    ) -> dict[int, Tensor]:
        """Compute the result row of every text, by slot. Texts with verifiers of one kind are
        decided together. A capture decides all texts that are drafted as they are, so that it
        serves whoever of them is there."""
        slots, wanted = [*step.verifiers], defaultdict[tuple[Hashable, int], list[int]](list)
        for row, (slot, verifier) in enumerate(step.verifiers.items()):
            if slot in self._texts:
                wanted[verifier.kind, step.sizes[row]].append(row)
        keys: dict[tuple[Hashable, int], Hashable] = {
            (kind, size): step.key and ("decide", step.key, kind)
            if size == step.drafts.size
            else None
            for kind, size in wanted
        }
        decided = dict[int, Tensor]()
        for each in self._graphs.in_order(keys):
            rows, key, size = wanted[each], keys[each], each[1]
            verifier = step.verifiers[slots[rows[0]]]
            group = groups[verifier.drafting]
            members = group.rows if key else rows
            shape = self.drafter.nodes(size), size
            compute = partial(verifier.rows, read, members, shape, group)
            results = self._graphs.ready(key, compute)()
            decided |= {slots[row]: results[members.index(row)] for row in rows}
        return decided

    def _inputs(self) -> StepInputs:
        """Return the inputs of a step, on their way to the device. Never drafts past the last token
        that may be written. Where every step must have the same shape, empty slots repeat the
        numbers and the processor of another one."""
        drafter, texts, inputs = self.drafter, dict(sorted(self._texts.items())), {}
        for slot, text in texts.items():
            limit = min(text.end - len(text.ids) - 1, drafter.longest)
            inputs[slot] = text, drafter.inputs(slot, text.ids, limit)
        size = max(each.size for _, each in inputs.values())
        # the step of a last token alone is not captured, where others have drafts
        captured = self._captures and (size > 0 or not drafter.computes)
        if captured:
            size = drafter.longest
        if self._fills:
            first = next(iter(inputs.values()))
            inputs = {slot: inputs.get(slot, first) for slot in range(self.slots)}
        for text in texts.values():
            if text.verifier.processor:
                text.verifier.processor.load(text.ids)
        capacity = self._target.size.capacity
        moved = [text.moves(slot * capacity) for slot, text in texts.items()]
        sources, targets = (list(chain(*part)) for part in zip(*moved, strict=True))
        most = max(len(each.numbers) for _, each in inputs.values())
        width = drafter.width if captured else most
        drafting = (  # of each slot; equal ones have the same drafts
            text.verifier.drafting if slot in texts or not text.verifier.processor else None
            for slot, (text, _) in inputs.items()
        )
        key = (size, width, *drafting) if captured else None
        sent = self._buffer.send(inputs, size, width, (sources, targets), key)
        if sources:
            self._target.move(*sent.moves)
        return sent

    def _draft(self, step: StepInputs, groups: Sequence[TextGroup]) -> Callable[[], Draft]:
        """Return the call that drafts for all texts, as deep as the longest draft."""
        drafts = step.drafts
        if not drafts.size:
            none = step.words[:, :0].float()
            return lambda: chain_draft(drafts.numbers[:, :1], none)
        key = ("draft", step.key) if step.key and self.drafter.computes else None
        return self._graphs.ready(key, partial(self.drafter.draft, drafts, groups))


def _logits(target: ModelCache, draft: Draft, roots: Rows) -> Tensor:
    """Compute the target's logits after every node of the drafts, [A, N + 1, V]."""
    if draft.is_chain:
        return target.chains(draft.ids, roots)
    return target.trees(draft.ids, roots, draft.depths, ancestors(draft.parents, draft.depth))
