"""Limits per visitor: none in private mode; in public mode bounds that the page states in one
sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain

from display.format import count
from mars_core.numbers import read_integer
from mars_core.rules import PLAIN
from mars_core.types import ANSWER, SERVER, DrafterConfig, RunConfig


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no bound but the models' own. Times are seconds of wall clock."""

    prompt_characters: int | None = None  # prompt, system prompt and stop strings together
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    k: int | None = None  # drafted tokens a step of a chain
    tree_tokens: int | None = None
    tree_depth: int | None = None
    lanes: int | None = None
    study_runs: int | None = None
    seconds: int | None = None  # of one comparison, study or vote, once its turn has come
    waiting: int | None = None  # visitors that wait for their turn
    runs_an_hour: int | None = None  # of one owner
    downloads: int | None = None  # of one owner, written at once

    def check(self, configs: Sequence[RunConfig]) -> None:
        """Raises ValueError with one sentence for the first exceeded limit."""
        at_most("The number of lanes", len(configs), self.lanes)
        for config in configs:
            if ANSWER in config.environment:
                continue
            prompt = config.prompt
            self.check_prompt(prompt.text, prompt.system, *prompt.stop)
            before = sum(map(len, chain(*prompt.history)))
            at_most("The conversation's length in characters", before, self.prompt_characters)
            self.check_drafts(config.drafter)
            self.check_length(config.max_new_tokens)

    def check_length(self, new_tokens: int) -> None:
        """Check the longest text. Raises ValueError."""
        _within("max_new_tokens", new_tokens, self.new_tokens)

    def check_drafts(self, drafter: DrafterConfig) -> None:
        """Raises ValueError."""
        if drafter.tree is not None:
            _within("tokens of the draft tree", drafter.tree.tokens, self.tree_tokens)
            _within("depth of the draft tree", drafter.tree.depth, self.tree_depth)
        elif drafter.kind not in (PLAIN, SERVER):
            _within("K", drafter.k, self.k)

    def check_prompt(self, *texts: str) -> None:
        """Check the prompt before anything is loaded or encoded. Raises ValueError."""
        at_most("The prompt's length in characters", sum(map(len, texts)), self.prompt_characters)

    def sentence(self, *, study: bool = False) -> str:
        """Return the limits in one sentence; empty without limits."""
        stated = (
            (self.prompt_characters, "{} character{s} a prompt"),
            (self.prompt_tokens, "{} token{s} a prompt"),
            (self.new_tokens, "{} new token{s}"),
            (self.k, "K = {}"),
            (self.tree_tokens, "trees of {} token{s}"),
            (self.tree_depth, "trees of depth {}"),
            (self.study_runs, "{} run{s} a study") if study else (self.lanes, "{} lane{s}"),
            (self.seconds, "{} s once its turn has come"),
            (self.runs_an_hour, "{} run{s} an hour"),
        )
        parts = [text.format(count(most), s="s" * (most > 1)) for most, text in stated if most]
        return f"On this public page at most: {', '.join(parts)}." if parts else ""


PRIVATE_LIMITS = Limits()
PUBLIC_LIMITS = Limits(
    prompt_characters=8000,
    prompt_tokens=2048,
    new_tokens=512,
    k=16,
    tree_tokens=64,
    tree_depth=12,
    lanes=4,
    study_runs=80,
    seconds=120,
    waiting=20,
    runs_an_hour=120,
    downloads=2,
)


def read_limits(text: str, base: Limits) -> Limits:
    """``base`` with what ``text`` sets, as ``new_tokens=256,seconds=60``; ``off`` takes a bound
    away. Raises ValueError."""
    names = [field.name for field in fields(Limits)]
    changed: dict[str, int | None] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = map(str.strip, part.partition("="))
        if name not in names:
            raise ValueError(f"MARS_LIMITS sets {name[:80]!r}; it can set {', '.join(names)}.")
        changed[name] = (
            None if value == "off" else read_integer(value, f"MARS_LIMITS {name}", 1, 10**9, "off")
        )
    return replace(base, **changed)


def at_most(name: str, value: int, most: int | None) -> None:
    """Raise ValueError for more than there may be."""
    if most is not None and value > most:
        raise ValueError(f"{name} is {value}; on this public page it must be at most {most}.")


def _within(name: str, value: int, most: int | None) -> None:
    if most is not None and not 1 <= value <= most:
        raise ValueError(f"{name} is {value}; on this public page it must be 1 to {most}.")
