"""Our decoding methods and drafters, and the pairs that come with the program, with prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice, pairwise
from typing import Any, NamedTuple

from transformers.utils import logging as transformers_logging

from bench.common.measure import Decoded
from mars_core.models import BUNDLED_PAIR, CATALOG, ModelPool, Pair
from mars_core.session import Session, run_config
from mars_core.types import (
    DrafterConfig,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Trace,
    TreeShape,
)
from training.demo.corpus import held_out, held_out_requests

TREE = TreeShape(12, 6, 2)
DRAFTERS: Mapping[str, DrafterConfig] = {
    "none": DrafterConfig("none"),
    "draft model": DrafterConfig("model", k=5),
    "EAGLE-3 chain": DrafterConfig("eagle3", k=5),
    "EAGLE-3 tree": DrafterConfig("eagle3", tree=TREE),
    "n-grams": DrafterConfig("ngram", k=5),
}
COMPARED = ("none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree")
REAL_PROMPTS = tuple(
    PromptConfig(text)
    for text in (
        "What is the capital of France, and what is it known for?",
        "Write a Python function that returns the n-th Fibonacci number, with a docstring and an "
        "example.",
        "Explain in simple words why the sky is blue.",
        "A baker makes 24 rolls an hour. How many rolls does he make in 7 hours? Show your steps.",
        "Write a short story about a lighthouse keeper who finds a message in a bottle.",
        "List five tips for learning a new language, with one sentence for each.",
        "Write a polite email to a colleague asking to move a meeting from Tuesday to Thursday.",
        "Summarize in two sentences: The water cycle moves water between oceans, air and land. "
        "The sun heats the sea and water evaporates. The vapour cools, forms clouds and falls as "
        "rain or snow. Rivers carry it back to the sea, and some of it seeps into the ground, "
        "where plants and wells use it.",
    )
)


class Timed(NamedTuple):
    """One step, except the first of a run, which follows the prefill."""

    drafted: int
    draft_s: float
    verify_s: float
    step_s: float


@dataclass(slots=True)
class Ours:
    """A method of ours, which records the times of its steps. ``rule``: empty for the lossless
    one of the drafter."""

    pair: Pair
    rule: str
    drafter: DrafterConfig
    temperature: float
    tokens: int
    telemetry: bool = True
    timed: list[Timed] = field(default_factory=list)
    path: str = ""  # how the target's pass runs, from the engine

    def __call__(self, prompt: PromptConfig, seed: int) -> Decoded:
        run = Session(self.pair).start(self.config(prompt, seed), telemetry=self.telemetry)
        self.path = run.config.environment["path"]
        steps = list(run)
        self.timed += [
            Timed(step.drafted, step.draft_s, step.verify_s, step.elapsed_s - before.elapsed_s)
            for before, step in pairwise(steps)
        ]
        return Decoded(tuple(token.id for step in steps for token in step.emitted), len(steps))

    def config(self, prompt: PromptConfig, seed: int) -> RunConfig:
        lossless = "none" if self.drafter.kind == "none" else "strict"
        return run_config(
            self.pair,
            prompt=prompt,
            rule=RuleConfig(self.rule or lossless),
            drafter=self.drafter,
            sampling=Sampling(self.temperature),
            max_new_tokens=self.tokens,
            seed=seed,
        )

    def ids(self, prompt: PromptConfig, seed: int, prefix: Sequence[int] = ()) -> tuple[int, ...]:
        """New tokens after ``prefix``, which counts among the ``tokens`` of a text."""
        config = replace(
            self.config(prompt, seed),
            prefix=tuple(prefix),
            max_new_tokens=self.tokens - len(prefix),
        )
        return complete(self.pair, config).token_ids


def complete(pair: Pair, config: RunConfig) -> Trace:
    """Make a complete run."""
    run = Session(pair).start(config)
    for _ in run:
        pass
    return run.trace()


def loaded(name: str = "bundled", **options: Any) -> Pair:
    """Load the bundled pair, or the ``real`` one, with which the page starts; ``options`` are those
    of ``ModelPool``."""
    transformers_logging.set_verbosity_error()
    return ModelPool(**options).get(BUNDLED_PAIR if name == "bundled" else CATALOG[0])


def prompts_for(name: str, count: int) -> list[PromptConfig]:
    """Return the prompts for the pair of this name."""
    if name == "bundled":
        return mixed_prompts(count)
    return [*islice(cycle(REAL_PROMPTS), count)]


def mixed_prompts(count: int) -> list[PromptConfig]:
    """Return held-out problems and story requests of the bundled pair, half of each."""
    problems = [item.question for item in held_out(count - count // 2)]
    return [PromptConfig(text) for text in (*problems, *held_out_requests(count // 2))]


@dataclass(slots=True)
class Differences:
    """How often strict's text differs from the target's, and a continued run's from the original's,
    by method over ``texts`` texts."""

    strict: Counter[str] = field(default_factory=Counter)
    continued: Counter[str] = field(default_factory=Counter)
    texts: int = 0

    def add(
        self,
        methods: Mapping[str, Ours],
        prompt: PromptConfig,
        seed: int,
        *,
        continued: Collection[str],
        repeated: str = "",
    ) -> None:
        """Add one text of each method. The first decodes without a draft. ``continued``: methods
        that generate their text again from its middle; ``repeated``: one that starts after a text
        which repeats its beginning, so that n-grams can draft."""
        none = next(iter(methods))
        first_ids: tuple[int, ...] = ()
        for name, method in methods.items():
            prefix = (*first_ids[: method.tokens // 3], first_ids[0]) if name == repeated else ()
            ids = method.ids(prompt, seed, prefix)
            first_ids = first_ids or ids
            own = methods[none].ids(prompt, seed, prefix) if prefix else first_ids
            self.strict[name] += ids != own
            if name in continued:
                half = len(ids) // 2
                rest = method.ids(prompt, seed, (*prefix, *ids[:half]))
                self.continued[name] += rest != ids[half:]
        self.texts += 1
