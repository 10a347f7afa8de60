"""Text in, runs out: configuration, validation, tokenizer and chat template."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

import torch
import transformers

from mars_core import __version__
from mars_core.drafting import context_limit, drafter_kind
from mars_core.engine.assembly import Assembler
from mars_core.engine.build import build, kind_of
from mars_core.jobs import RUN_FAILURES, Began
from mars_core.models import Pair
from mars_core.models.gguf import source_file
from mars_core.models.memory import dtype_name
from mars_core.rules import PLAIN, RULES
from mars_core.runs.batch import together
from mars_core.runs.run import Checked, Run, Seat
from mars_core.runs.validation import validate, validate_length
from mars_core.settings import Settings
from mars_core.telemetry import HEAD_CONTEXT
from mars_core.text.prompting import encode
from mars_core.types import (
    SAMPLER,
    SERVER,
    DrafterConfig,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Trace,
)

_WARM_UP_TOKENS = 8
_WARM_UP_PROMPT = 2  # tokens that one step on a CPU follows


def run_config(
    pair: Pair,
    *,
    prompt: PromptConfig,
    rule: RuleConfig,
    drafter: DrafterConfig,
    sampling: Sampling,
    max_new_tokens: int,
    seed: int,
    prefix: tuple[int, ...] = (),
) -> RunConfig:
    """Return a RunConfig that names this pair's models, device, dtype and the versions of the
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
        prefix=prefix,
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
        "dtype": dtype_name(pair.dtype),
        "threads": str(torch.get_num_threads()),
        "exact": f"no: {pair.inexact}" if pair.inexact else str(pair.shapes),
        **({"gguf": "; ".join(files)} if files else {}),
        **(
            {HEAD_CONTEXT: str(pair.head.config.layer.max_position_embeddings)} if pair.head else {}
        ),
    }


class Session:
    """Starts runs on a pair of models."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def count_tokens(self, prompt: PromptConfig) -> int:
        """Length of the prompt in tokens, chat template included. Raises ValueError for a prompt
        that cannot be encoded."""
        return len(encode(self.pair.tokenizer, prompt))

    def configs(
        self, settings: Settings, answers: Mapping[int, Trace] = MappingProxyType({})
    ) -> tuple[RunConfig, ...]:
        """Return the configuration of each lane; ``answers``: those of servers that are there
        already, by lane. Raises ValueError."""
        spec = self.pair.spec
        return tuple(
            answers[number].config
            if number in answers
            else settings.served(lane)
            if lane.rule.name == SERVER
            else run_config(
                self.pair,
                prompt=settings.prompt_config,
                rule=lane.config(spec),
                drafter=DrafterConfig(PLAIN, k=0)
                if lane.rule.name == PLAIN
                else settings.of(lane).config(spec),
                sampling=settings.sampling,
                max_new_tokens=settings.max_new_tokens,
                seed=settings.seed,
                prefix=settings.prefix,
            )
            for number, lane in enumerate(settings.rules)
        )

    def asked(self, settings: Settings, turns: Sequence[PromptConfig]) -> tuple[RunConfig, ...]:
        """Return the configuration of each lane for its turn of a conversation. Raises
        ValueError."""
        self.check_turns(settings.chat)
        configs = self.configs(replace(settings, prefix=()))
        return tuple(
            replace(config, prompt=turn) for config, turn in zip(configs, turns, strict=True)
        )

    def check_turns(self, chat: bool = True) -> None:
        """Raises ValueError where nothing says to the model who wrote what."""
        if not (chat and self.pair.tokenizer.chat_template):
            which = "this is a base model" if chat else "chat is off"
            raise ValueError(
                f"There is no follow-up without a chat template, which says who wrote what: {which}."
            )

    def check(self, config: RunConfig) -> Checked:
        """Validate and encode, without allocating caches, and say on what it will run, which may
        not be that of the stored run whose settings these are. Raises ValueError with one sentence
        that names the problem. What a server runs, it checks itself."""
        if config.served:
            return Checked(config, ())
        validate(config, self.pair)
        parameters = RULES[config.rule.name].values(config.rule.parameters)
        rule, here = RuleConfig(config.rule.name, parameters), _environment(self.pair)
        config = replace(config, rule=rule, environment=here)
        ids = encode(self.pair.tokenizer, config.prompt)
        validate_length(config, len(ids), *context_limit(self.pair, config.drafter))
        return Checked(config, tuple(ids))

    def start(self, config: RunConfig, *, telemetry: bool = True) -> Run:
        """Return a run that is ready to be iterated, with its caches. Raises ValueError as
        ``check``, and out-of-memory errors. Without ``telemetry`` only times and outcomes are
        recorded, to measure the cost of the telemetry."""
        return self.open(self.check(config), telemetry=telemetry)

    def open(self, checked: Checked, *, telemetry: bool = True) -> Run:
        """Do as ``start``, of what is already checked."""
        kind = kind_of(self.pair, checked.config, checked.tokens)
        engine = self.pair.engines.take(kind) or build(self.pair, kind)
        return Run(self.pair, checked, telemetry, Seat(kind, engine))

    def together(
        self,
        configs: Iterable[RunConfig],
        slots: int,
        *,
        telemetry: bool = True,
        began: Callable[[int, Run], None] = lambda _number, _run: None,
    ) -> Iterator[tuple[int, Run]]:
        """Execute the runs of the configurations, ``slots`` at a time; each is yielded with its
        number when it has ended, in that order. A configuration is taken when there is room for it,
        and ``began`` called with its number and run, which can be cancelled; one with another
        drafter, or longer than its engine can hold, waits until the others have ended. Raises
        ValueError as ``check``, and out-of-memory errors."""
        return together(self.pair, map(self.check, configs), slots, telemetry, began)

    def warm_up(self, config: RunConfig) -> None:
        """Decode a few tokens and discard them, with the engine of the run itself; on a CPU one step
        after the beginning of the prompt, which is as good and delays the first token least. Errors
        are ignored: the run will raise them again."""
        least = _WARM_UP_TOKENS
        with suppress(*RUN_FAILURES):
            run = self.start(config)
            if self.pair.device.type == "cpu":
                run.prompt_ids, least = run.prompt_ids[:_WARM_UP_PROMPT], 1
            for step in run:
                if step.tokens[-1].position - len(config.prefix) >= least - 1:
                    break
            run.close()

    def began(self, run: int, checked: Checked) -> Began:
        """Return the first event of a run that could not be started."""
        pair, config = self.pair, checked.config
        assembler = Assembler(pair.tokenizer, pair.pieces, config.prompt.stop, config.prefix)
        return Began(run, *checked, assembler.given, assembler.text)
