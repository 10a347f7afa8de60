"""Text in, Steps and a Trace out: tokenizer, chat template, validation, stop conditions,
cancellation."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import torch
import transformers

from mars_core import __version__
from mars_core.drafting import drafter_kind
from mars_core.engine import Engine, RawStep
from mars_core.engine.build import build, kind_of
from mars_core.jobs import RUN_FAILURES, Began, RecordedRun
from mars_core.models import Pair
from mars_core.models.errors import brief, is_out_of_memory
from mars_core.models.gguf import source_file
from mars_core.models.memory import PeakMemory
from mars_core.panics import contained
from mars_core.rules import RULES, shift_kind
from mars_core.text.assembly import Assembler
from mars_core.text.prompting import encode
from mars_core.types import (
    SAMPLER,
    DrafterConfig,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    ShiftKind,
    Status,
    Step,
    StopReason,
)
from mars_core.validation import validate, validate_length

_WARM_UP_TOKENS = 8


def run_config(
    pair: Pair,
    *,
    prompt: PromptConfig,
    rule: RuleConfig,
    drafter: DrafterConfig,
    sampling: Sampling,
    max_new_tokens: int,
    seed: int,
) -> RunConfig:
    """A RunConfig that names this pair's models, device, dtype and the versions of the
    libraries. Raises ValueError for an unknown drafter."""
    model = drafter_kind(drafter.kind).ref(pair)
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
    device = (
        torch.cuda.get_device_name(pair.device)
        if pair.device.type == "cuda"
        else platform.processor() or "cpu"
    )
    models = ((pair.target_ref, pair.target), (pair.draft_ref, pair.draft))
    files = [
        file
        for ref, model in models
        if ref and model and (file := source_file(ref, model.name_or_path))
    ]
    return {
        "app": __version__,
        "sampler": SAMPLER,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # a torch class, converted so that it can be pickled
        "transformers": transformers.__version__,
        "platform": platform.platform(),
        "device": f"{pair.device} ({device})",
        "dtype": str(pair.dtype).removeprefix("torch."),
        "threads": str(torch.get_num_threads()),
        "exact": f"no: {pair.inexact}" if pair.inexact else str(pair.shapes),
        **({"gguf": "; ".join(files)} if files else {}),
    }


class Session:
    """Starts runs on a pair of models."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def count_tokens(self, prompt: PromptConfig) -> int:
        """Length of the prompt in tokens, chat template included. Raises ValueError for a prompt
        that cannot be encoded."""
        return len(encode(self.pair.tokenizer, prompt))

    def check(self, config: RunConfig) -> Checked:
        """Validates and encodes, without allocating caches. Raises ValueError with one sentence
        that names the problem."""
        validate(config, self.pair)
        parameters = RULES[config.rule.name].values(config.rule.parameters)
        config = replace(config, rule=RuleConfig(config.rule.name, parameters))
        ids = encode(self.pair.tokenizer, config.prompt)
        validate_length(config, len(ids), *self.pair.limit(config.drafter))
        return Checked(config, tuple(ids))

    def start(self, config: RunConfig, *, telemetry: bool = True) -> Run:
        """A run that is ready to be iterated, with its caches. Raises ValueError as ``check``, and
        out-of-memory errors. Without ``telemetry`` only times and outcomes are recorded, to measure
        the cost of the telemetry."""
        return Run(self.pair, *self.check(config), telemetry)

    def together(
        self,
        configs: Iterable[RunConfig],
        slots: int,  # noqa: ARG002
        *,
        telemetry: bool = True,
    ) -> Iterator[tuple[int, Run]]:
        """The runs of the configurations, ``slots`` at a time; each is yielded with its number when
        it has ended (in the order in which they end). All have drafters of one kind and shape. A
        run that fails is yielded with its status; configurations are taken from the iterable only
        when a slot is free."""
        for number, config in enumerate(configs):
            run = self.start(config, telemetry=telemetry)
            with suppress(*RUN_FAILURES):
                for _ in run:
                    pass
            yield number, run

    def warm_up(self, config: RunConfig) -> None:
        """Decodes a few tokens and discards them, with the engine of the run itself. Errors are
        ignored: the run will raise them again."""
        with suppress(*RUN_FAILURES):
            run = self.start(config)
            for step in run:
                if step.tokens[-1].position - len(config.prefix) >= _WARM_UP_TOKENS - 1:
                    break
            run.close()

    def began(self, run: int, config: RunConfig) -> Began:
        """The first event of a run that could not be started. Raises ValueError as ``check``."""
        checked = self.check(config)
        assembler = Assembler(
            self.pair.tokenizer, self.pair.pieces, config.prompt.stop, config.prefix
        )
        return Began(run, *checked, assembler.given, assembler.text)


class Checked(NamedTuple):
    """A valid configuration with complete parameters, and its prompt."""

    config: RunConfig
    prompt_ids: tuple[int, ...]


class Run(RecordedRun):
    """One generation. Iterate it for its Steps; ``trace`` is available at any time, before the end
    with status cancelled."""

    def __init__(
        self, pair: Pair, config: RunConfig, prompt_ids: tuple[int, ...], telemetry: bool
    ) -> None:
        self._pair = pair
        self._kind = kind_of(pair, config, _longest(config, len(prompt_ids)), telemetry)
        self._engine: Engine | None = pair.engines.take(self._kind) or build(pair, self._kind)
        kind = shift_kind(config.rule.name, config.drafter, config.sampling.temperature)
        recorded = {} if kind is ShiftKind.EXACT else {"tv": kind.value}
        config = replace(
            config, environment={**config.environment, "path": self._engine.path, **recorded}
        )
        self._assembler = Assembler(pair.tokenizer, pair.pieces, config.prompt.stop, config.prefix)
        super().__init__(Began(0, config, prompt_ids, self._assembler.given, self._assembler.text))
        self._cancelled = False
        self._raw: Iterator[RawStep] | None = None
        self._elapsed_s = 0.0
        self._peak = PeakMemory(pair.device)

    @property
    def peak_memory_bytes(self) -> int:
        return self._peak.bytes()

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._cancelled:
            self.close()
        if self._engine is None:
            raise StopIteration
        try:
            with contained():
                return self._step(self._engine)
        except RUN_FAILURES as error:
            self._raw = self._engine = None  # its state is undefined
            self._finish(Status.FAILED, StopReason.ERROR, failure(error, str(self._pair.device)))
            raise

    def cancel(self, why: StopReason = StopReason.CANCELLED) -> None:
        """Ends the run before its next step, from any thread; no effect after the run has ended."""
        if not self._cancelled and self.status is Status.CANCELLED:
            self.stop_reason = why
        self._cancelled = True

    def close(self) -> None:
        """Releases caches and captures; a run that has not ended is cancelled. Call it in the
        thread that iterates the run."""
        self._cancelled, self._raw = True, None
        if self._engine is not None and self._pair.graphs:
            self._pair.engines.give_back(self._kind, self._engine)
        self._engine = None

    def _step(self, engine: Engine) -> Step:
        """The next step. Its times exclude the consumer's work between two steps, and captures,
        which later runs share."""
        config, prefix, started = self.config, len(self.config.prefix), time.perf_counter()
        if self._raw is None:
            read = [*self.prompt_ids, *config.prefix]
            engine.prefill(read, prefix)
            self.prefill_s = time.perf_counter() - started
            self._raw = engine.steps(read, config.max_new_tokens, config.seed, prefix)
        raw = next(self._raw)
        before = self._elapsed_s - raw.set_up_s - started
        step, stopped = self._assembler.step(raw, before + time.perf_counter())
        reason = (
            StopReason.STOP_STRING if stopped else StopReason.EOS if raw.eos else StopReason.LENGTH
        )
        ended = (
            reason is not StopReason.LENGTH
            or self._assembler.count == prefix + config.max_new_tokens
        )
        self.steps.append(self._assembler.close(step) if ended else step)
        self.text = self._assembler.text
        self._elapsed_s = before + time.perf_counter()
        if ended:
            self._finish(Status.COMPLETED, reason, "")
        return self.steps[-1]

    def _finish(self, status: Status, reason: StopReason, error: str) -> None:
        self.status, self.stop_reason, self.error = status, reason, error
        self.close()


def failure(error: Exception, device: str) -> str:
    """Why a run failed, in one sentence without the stack trace in a library's message."""
    if is_out_of_memory(error):
        return f"The memory of {device} ran out; take a shorter prompt, fewer new tokens or a smaller pair."
    return brief(error)


def _longest(config: RunConfig, prompt: int) -> int:
    """Maximum tokens of the text, prompt included."""
    return prompt + len(config.prefix) + config.max_new_tokens
