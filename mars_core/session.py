"""Text in, Steps and a Trace out: tokenizer, chat template, validation, stop conditions, cancellation. Knows no screen, no store."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
import transformers

from mars_core import __version__
from mars_core.decoder import ModelCache, open_cache
from mars_core.drafting.base import Drafter
from mars_core.drafting.eagle3 import Eagle3Drafter
from mars_core.drafting.model import ModelDrafter
from mars_core.drafting.ngram import NgramDrafter
from mars_core.drafting.none import NoDrafter
from mars_core.engine import Engine
from mars_core.jobs.record import trace_of
from mars_core.memory import PeakMemory
from mars_core.models import Pair
from mars_core.rules import RULES
from mars_core.text.assembly import Assembler
from mars_core.text.prompting import encode
from mars_core.types import (
    DrafterConfig,
    Given,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Status,
    Step,
    StopReason,
    Trace,
    TreeShape,
)
from mars_core.validation import validate, validate_length


def run_config(
    pair: Pair, *, prompt: PromptConfig, rule: RuleConfig, drafter: DrafterConfig, sampling: Sampling,
    max_new_tokens: int, seed: int,
) -> RunConfig:  # fmt: skip
    """A RunConfig that names this pair's models, device, dtype and the versions of the libraries."""
    model = {"model": pair.draft_ref, "eagle3": pair.head_ref}.get(drafter.kind)
    return RunConfig(
        prompt=prompt,
        target=pair.target_ref,
        drafter=replace(drafter, model=model),
        rule=rule,
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        seed=seed,
        environment=_environment(pair),
    )


def _environment(pair: Pair) -> dict[str, str]:
    device = torch.cuda.get_device_name(pair.device) if pair.device.type == "cuda" else platform.processor() or "cpu"
    return {
        "app": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # a class of torch's own, which is not to cross
        "transformers": transformers.__version__,
        "platform": platform.platform(),
        "device": f"{pair.device} ({device})",
        "dtype": str(pair.dtype).removeprefix("torch."),
        "threads": str(torch.get_num_threads()),
    }


class Session:
    """Runs on one pair of models."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def count_tokens(self, prompt: PromptConfig) -> int:
        """Length of the prompt in tokens, chat template included. Raises ValueError for a prompt that cannot be encoded."""
        return len(encode(self.pair.tokenizer, prompt))

    def check(self, config: RunConfig) -> Checked:
        """Validates and encodes; takes no memory. Raises ValueError with one sentence that names what is wrong."""
        validate(config, self.pair)
        parameters = RULES[config.rule.name].values(config.rule.parameters)
        config = replace(config, rule=RuleConfig(config.rule.name, parameters))
        ids = encode(self.pair.tokenizer, config.prompt)
        validate_length(config, len(ids), self.pair.context)
        return Checked(config, tuple(ids))

    def start(self, config: RunConfig, *, meter: bool = True) -> Run:
        """A run that is ready to be iterated, with its caches. Raises ValueError as ``check``, and what the lack of memory raises.

        Without ``meter`` only times and outcomes are known: the measure of what measuring costs.
        """
        return Run(self.pair, *self.check(config), meter)

    def given(self, config: RunConfig) -> tuple[tuple[Given, ...], str]:
        """The tokens that ``config`` gives, and their text."""
        assembler = Assembler(self.pair.tokenizer, self.pair.pieces, config.prompt.stop, config.prefix)
        return assembler.given, assembler.text


class Checked(NamedTuple):
    """A configuration that can be run, its parameters complete, and its prompt."""

    config: RunConfig
    prompt_ids: tuple[int, ...]


class Run:
    """One generation. Iterate it for its Steps; ``trace`` is available at any time, before the end with status cancelled."""

    def __init__(self, pair: Pair, config: RunConfig, prompt_ids: tuple[int, ...], meter: bool) -> None:
        self._pair = pair
        self.prompt_ids = prompt_ids
        length = len(prompt_ids) + len(config.prefix) + config.max_new_tokens
        self._kind, self._engine = _engine(pair, config, length, meter)
        self.config = replace(config, environment={**config.environment, "path": self._engine.path})
        self._assembler = Assembler(pair.tokenizer, pair.pieces, config.prompt.stop, config.prefix)
        self._steps: list[Step] = []
        self.prefill_s = math.nan
        self.status = Status.CANCELLED
        self.stop_reason = StopReason.CANCELLED
        self.error = ""
        self._cancelled = False
        self._stepping = self._generate()
        self._peak = PeakMemory(pair.device)

    @property
    def text(self) -> str:
        """The text so far, the given beginning included."""
        return self._assembler.text

    @property
    def given(self) -> tuple[Given, ...]:
        return self._assembler.given

    @property
    def peak_memory_bytes(self) -> int:
        return self._peak.bytes()

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._cancelled:
            raise StopIteration
        try:
            return next(self._stepping)
        except (RuntimeError, ValueError, MemoryError) as error:
            self._finish(Status.FAILED, StopReason.ERROR, failure(error, str(self._pair.device)))
            raise

    def cancel(self, why: StopReason = StopReason.CANCELLED) -> None:
        """Ends the run before its next step, from any thread; a run that has ended stays as it is."""
        if not self._cancelled and self.status is Status.CANCELLED:
            self.stop_reason = why
        self._cancelled = True

    def trace(self) -> Trace:
        """What happened so far."""
        return trace_of(
            self.config, self.prompt_ids, self.given, self._steps, self.text, status=self.status,
            stop_reason=self.stop_reason, error=self.error, prefill_s=self.prefill_s,
            peak_memory_bytes=self.peak_memory_bytes,
        )  # fmt: skip

    def _generate(self) -> Iterator[Step]:
        given = len(self.config.prefix)
        read = [*self.prompt_ids, *self.config.prefix]
        started = time.perf_counter()
        self._engine.prefill(read)
        self.prefill_s = time.perf_counter() - started
        reason = StopReason.LENGTH
        for raw in self._engine.steps(read, self.config.max_new_tokens, self.config.seed, given):
            started += raw.set_up_s  # recordings serve later runs too, and are no part of this one's time
            step, stopped = self._assembler.step(raw, time.perf_counter() - started)
            if stopped or raw.eos:
                reason = StopReason.STOP_STRING if stopped else StopReason.EOS
            ended = reason is not StopReason.LENGTH or self._assembler.count == given + self.config.max_new_tokens
            self._steps.append(self._assembler.close(step) if ended else step)
            if ended:
                self._finish(Status.COMPLETED, reason, "")
            paused = time.perf_counter()
            yield self._steps[-1]
            if ended:
                return
            started += time.perf_counter() - paused  # what the consumer does between two steps is not the run's time

    def _finish(self, status: Status, reason: StopReason, error: str) -> None:
        self.status, self.stop_reason, self.error = status, reason, error
        if self._pair.graphs and status is Status.COMPLETED:
            self._pair.engines.give_back(self._kind, self._engine)


def failure(error: BaseException, device: str) -> str:
    """Why a run failed, in one sentence without the stack of a library's message."""
    message = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(each in message for each in _NO_MEMORY):
        return f"The memory of {device} ran out; take a shorter prompt, fewer new tokens or a smaller pair."
    return message


_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")  # torch on a CPU, on Windows, on CUDA


def _engine(pair: Pair, config: RunConfig, tokens: int, meter: bool) -> tuple[Hashable, Engine]:
    """An engine for a text of at most ``tokens`` tokens, the prompt included, and its kind."""
    if not pair.graphs:
        return None, _build(pair, config, tokens, meter)
    while tokens & (tokens - 1):  # up to a power of two, so that texts of about the same length share recordings
        tokens += tokens & -tokens
    rule = (config.rule.name, *sorted(config.rule.parameters.items()))
    kind = (config.drafter, rule, config.sampling, min(tokens, pair.context), meter)
    return kind, pair.engines.take(kind, lambda: _build(pair, config, min(tokens, pair.context), meter))


def _build(pair: Pair, config: RunConfig, tokens: int, meter: bool) -> Engine:
    rule = RULES[config.rule.name]
    head = pair.head if config.drafter.kind == "eagle3" else None
    nodes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k
    target = open_cache(pair.target, tokens, nodes, head.config.taps if head else ())
    return Engine(
        target=target,
        drafter=_drafter(pair, config, target, tokens),
        rule=rule,
        parameters=rule.values(config.rule.parameters),
        sampling=config.sampling,
        mode=config.drafter.mode,
        eos=pair.eos_ids,
        meter=meter,
        fixed=pair.graphs,
    )


def _drafter(pair: Pair, config: RunConfig, target: ModelCache, tokens: int) -> Drafter:
    drafter = config.drafter
    if drafter.kind == "ngram":
        return NgramDrafter(drafter.k, target.device)
    if drafter.kind == "eagle3" and pair.head is not None:
        return Eagle3Drafter(pair.head, target, drafter.tree or TreeShape(drafter.k, drafter.k, 1), tokens)
    if drafter.kind == "model" and pair.draft is not None:
        return ModelDrafter(pair.draft, tokens, drafter.k, drafter.mode, config.sampling, pair.vocabulary)
    return NoDrafter(target.device)
