"""Text in, Steps and a Trace out: tokenizer, chat template, validation, stop conditions, cancellation. Knows no screen, no store."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
import transformers

from mars_core import __version__
from mars_core.decoder import ModelCache, Room, open_cache
from mars_core.drafting.base import Drafter
from mars_core.drafting.eagle3 import Eagle3Drafter
from mars_core.drafting.model import ModelDrafter
from mars_core.drafting.ngram import NgramDrafter
from mars_core.drafting.none import NoDrafter
from mars_core.engine import Engine, RawStep, Verifier
from mars_core.jobs import Began
from mars_core.jobs.record import Record
from mars_core.memory import PeakMemory
from mars_core.models import Pair
from mars_core.rules import RULES
from mars_core.text.assembly import Assembler
from mars_core.text.prompting import encode
from mars_core.types import (
    DrafterConfig,
    Given,
    PassShape,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Status,
    Step,
    StopReason,
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
        passes = _passes(config, _longest(config, len(ids))) if self.pair.exact else None
        return Checked(replace(config, passes=passes), tuple(ids))

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


class Run(Record):
    """One generation. Iterate it for its Steps; ``trace`` is available at any time, before the end with status cancelled."""

    def __init__(self, pair: Pair, config: RunConfig, prompt_ids: tuple[int, ...], meter: bool) -> None:
        self._pair = pair
        self._kind = _kind(pair, config, _longest(config, len(prompt_ids)), meter)
        self._engine: Engine | None = pair.engines.take(self._kind) or _build(pair, self._kind)
        config = replace(config, environment={**config.environment, "path": self._engine.path})
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
            return self._step(self._engine)
        except (RuntimeError, ValueError, MemoryError) as error:
            self._raw = self._engine = None  # whatever state it is in
            self._finish(Status.FAILED, StopReason.ERROR, failure(error, str(self._pair.device)))
            raise

    def cancel(self, why: StopReason = StopReason.CANCELLED) -> None:
        """Ends the run before its next step, from any thread; a run that has ended stays as it is."""
        if not self._cancelled and self.status is Status.CANCELLED:
            self.stop_reason = why
        self._cancelled = True

    def close(self) -> None:
        """Lets go of caches and captures: a run that has not ended stays cancelled. In the thread that iterates it."""
        self._cancelled, self._raw = True, None
        if self._engine is not None and self._pair.graphs:
            self._pair.engines.give_back(self._kind, self._engine)
        self._engine = None

    def _step(self, engine: Engine) -> Step:
        """The next step. What the consumer does between two steps, and captures, which serve later runs too, are not the run's time."""
        config, given, started = self.config, len(self.config.prefix), time.perf_counter()
        if self._raw is None:
            read = [*self.prompt_ids, *config.prefix]
            engine.prefill(read, given)
            self.prefill_s = time.perf_counter() - started
            self._raw = engine.steps(read, config.max_new_tokens, config.seed, given)
        raw = next(self._raw)
        before = self._elapsed_s - raw.set_up_s - started
        step, stopped = self._assembler.step(raw, before + time.perf_counter())
        reason = StopReason.STOP_STRING if stopped else StopReason.EOS if raw.eos else StopReason.LENGTH
        ended = reason is not StopReason.LENGTH or self._assembler.count == given + config.max_new_tokens
        self.steps.append(self._assembler.close(step) if ended else step)
        self.text = self._assembler.text
        self._elapsed_s = before + time.perf_counter()
        if ended:
            self._finish(Status.COMPLETED, reason, "")
        return self.steps[-1]

    def _finish(self, status: Status, reason: StopReason, error: str) -> None:
        self.status, self.stop_reason, self.error = status, reason, error
        self.close()


def failure(error: BaseException, device: str) -> str:
    """Why a run failed, in one sentence without the stack of a library's message."""
    message = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(each in message for each in _NO_MEMORY):
        return f"The memory of {device} ran out; take a shorter prompt, fewer new tokens or a smaller pair."
    return message


_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")  # torch on a CPU, on Windows, on CUDA
_CHAIN_ROWS = 16  # of exact passes without a tree, whatever K is: a longer chain is read in several
_CHAIN_SPARE = 80  # positions that the longest chain takes in such passes
_WIDTHS = 256  # widths are multiples of it, so that texts of about the same length share engines


def _longest(config: RunConfig, prompt: int) -> int:
    """Tokens of the text, the prompt included."""
    return prompt + len(config.prefix) + config.max_new_tokens


def _passes(config: RunConfig, tokens: int) -> PassShape:
    """The shape of an exact run's passes, which follows from drafter and length alone; that of the run that ``config`` goes on from,
    where it is large enough."""
    tree = config.drafter.tree
    rows = _CHAIN_ROWS if tree is None else _up(tree.tokens + 1, _CHAIN_ROWS)
    width = _up(tokens + _spare(rows), _WIDTHS)
    had = config.passes
    return had if had is not None and had.rows == rows and had.width >= width else PassShape(rows, width)


def _spare(rows: int) -> int:
    return max(rows, _CHAIN_SPARE)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


class Kind(NamedTuple):
    """What an engine is built for; an idle one serves any run of its kind."""

    drafter: DrafterConfig
    rule: str
    parameters: tuple[tuple[str, float], ...]
    sampling: Sampling
    room: Room  # of the target
    meter: bool


def _kind(pair: Pair, config: RunConfig, tokens: int, meter: bool) -> Kind:
    """For a text of at most ``tokens`` tokens, the prompt included."""
    nodes, passes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k, config.passes
    if passes is not None:
        spare = _spare(passes.rows)
        room = Room(min(passes.width - spare, pair.context), spare, passes.rows, whole=True)
    elif pair.graphs:
        room = Room(min(_up(tokens, _WIDTHS), pair.context), nodes + 1, whole=True)
    else:
        room = Room(tokens, nodes + 1)
    return Kind(
        config.drafter, config.rule.name, tuple(sorted(config.rule.parameters.items())), config.sampling, room, meter
    )


def _build(pair: Pair, kind: Kind) -> Engine:
    head = pair.head if kind.drafter.kind == "eagle3" else None
    target = open_cache(pair.target, kind.room, head.config.taps if head else ())
    verifier = Verifier(target, RULES[kind.rule], dict(kind.parameters), kind.sampling, kind.drafter.mode, kind.meter)
    return Engine(verifier, _drafter(pair, kind, target), pair.eos_ids, captures=pair.graphs)


def _drafter(pair: Pair, kind: Kind, target: ModelCache) -> Drafter:
    drafter, tokens = kind.drafter, kind.room.tokens
    if drafter.kind == "ngram":
        return NgramDrafter(drafter.k)
    if drafter.kind == "eagle3" and pair.head is not None:
        shape = drafter.tree or TreeShape(drafter.k, drafter.k, 1)
        return Eagle3Drafter(pair.head, target.features, shape, tokens, whole=pair.graphs)
    if drafter.kind == "model" and pair.draft is not None:
        return ModelDrafter(
            pair.draft, tokens, drafter.k, drafter.mode, kind.sampling, pair.vocabulary, whole=pair.graphs
        )
    return NoDrafter()
