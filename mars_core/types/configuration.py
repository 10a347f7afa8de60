"""What a run is to do: sampling, rule, drafter and prompt. Every value is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

# how tokens are drawn, recorded in a run's environment: another sampler draws others with a seed
SAMPLER = "noise 1"


class DraftMode(StrEnum):
    """How the drafter picks its tokens: the one drawn from q with the noise that draws the
    target's token, its most likely one, or one sampled from q with other noise. At temperature 0
    all are the same."""

    COUPLED = "coupled"
    GREEDY = "greedy"
    SAMPLED = "sampled"


SPECIAL = "special"  # protected tokens: ends of texts and turns, and other tokens of the tokenizer
PROTECTED = (SPECIAL,)  # of new runs


@dataclass(frozen=True, slots=True)
class Processors:
    """Further logits processors, and protected tokens; a default switches one off. A word is a text
    that is encoded as it is, or ids: ``[42, 7]``. ``protect``: the drafted tokens that every rule
    decides as strict does: SPECIAL, ``digits``, ``quotes``, ids, or the text of tokens without
    spaces around it, where ``*``, ``?`` and ``[…]`` stand for any text, one character, and one of
    several."""

    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0  # of prompt and output, as in transformers
    presence_penalty: float = 0.0  # of the output, as in vLLM
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    logit_bias: tuple[
        tuple[str, float], ...
    ] = ()  # words with what is added to the logit that completes them; -inf: banned
    protect: tuple[str, ...] = ()  # PROTECTED in new runs

    @property
    def chosen(self) -> dict[str, Any]:
        """Those that are not switched off, by name."""
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }


@dataclass(frozen=True, slots=True)
class Sampling:
    """The warpers of the target, in the order temperature, top-k, top-p, min-p, typical-p; before
    them penalties and biases. ``top_k=0`` and ``top_p=1`` switch them off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    processors: Processors = Processors()


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A causal language model: a Hub id with a revision, or a local folder. ``revision`` is the
    resolved commit once loaded."""

    name: str
    revision: str | None = None


# values by name: a number, or an expression of the position (``rules.expression``)
Parameters = Mapping[str, float | str]


def numbers(parameters: Parameters) -> dict[str, float]:
    """Return those that are not expressions."""
    return {name: value for name, value in parameters.items() if not isinstance(value, str)}


def number_text(value: float) -> str:
    """Write it for messages: short, but never another number; also integers beyond all floats."""
    with suppress(OverflowError):
        short = f"{value:g}"
        return short if float(short) == value or value != value else repr(value)
    return f"{Decimal(value):.6g}"


def value_text(value: float | str) -> str:
    """Return a parameter's value as users write it."""
    return value if isinstance(value, str) else f"{value:g}"


@dataclass(frozen=True, slots=True)
class RuleConfig:
    """A verification rule and its parameters, e.g. ``RuleConfig("mars", {"theta": 0.9})``. ``none``
    drafts nothing."""

    name: str = "strict"
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A dynamic draft tree: the ``top_k`` best nodes of every depth are expanded, the best
    ``tokens`` nodes are drafted. The defaults are EAGLE's total_token = 60, which counts the root,
    and depth = 7, which counts expansions after the first."""

    tokens: int = 59
    depth: int = 8
    top_k: int = 10


MAX_DRAFT = 64  # largest k
# the rule and the drafter of a run of a server, where it does not say which it has
ANSWER = "answer"  # of an environment: the file that a run was read from
COUNTS = "counts"  # and what a server counted, where that is not of the run by itself
SERVER = "server"
WITH_PROBABILITIES = {"model", "eagle3"}  # drafters, as in ``drafting``


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """Where drafts come from. ``kind``: a name of ``drafting.DRAFTERS``; a chain of
    ``k`` tokens per step, or a tree."""

    kind: str = "model"
    model: ModelRef | None = None
    k: int = 5  # of chains
    mode: DraftMode = DraftMode.COUPLED  # GREEDY where the drafter has no probabilities
    tree: TreeShape | None = None

    def __post_init__(self) -> None:
        if self.mode is DraftMode.COUPLED and self.kind not in WITH_PROBABILITIES:
            object.__setattr__(self, "mode", DraftMode.GREEDY)


class ShiftKind(StrEnum):
    """What TV and KL of a run's tokens are."""

    EXACT = "exact"
    BOUND = "bound"  # upper bounds, and so are sums, means and largest values
    # not computed: the TV of the text is at most the expected number of its relaxed tokens
    MISSING = "missing"
    UNKNOWN = "unknown"  # of a served model

    @classmethod
    def recorded(cls, environment: Mapping[str, str]) -> ShiftKind:
        """Return the kind of a run with this environment."""
        kind = environment.get("tv", cls.UNKNOWN if SERVER in environment else cls.EXACT)
        return cls(kind) if kind in list(cls) else cls.UNKNOWN


class Exchange(NamedTuple):
    """An earlier turn of a conversation: prompt and answer."""

    user: str
    answer: str


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """A prompt and how it is encoded. ``history``: earlier turns, oldest first. ``thinking``:
    passed to chat templates that have such a switch as ``enable_thinking``; None leaves it to the
    template. ``structure``: JSON of the fields ``tools`` and ``response_format`` of OpenAI's
    interface; tools are put into the template, or into the prompt where that has no place for them;
    ``response_format`` is for servers alone."""

    text: str
    system: str = ""
    chat: bool = True  # use the tokenizer's chat template where it has one
    stop: tuple[str, ...] = ()
    history: tuple[Exchange, ...] = ()
    thinking: bool | None = None
    structure: str = ""

    def then(self, answer: str, text: str) -> PromptConfig:
        """Return the next turn of the conversation, in which ``answer`` was given to this one."""
        return replace(self, text=text, history=(*self.history, Exchange(self.text, answer)))


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything needed to repeat a run. ``environment`` holds versions of libraries and app,
    device and dtype. ``prefix``: ids of output tokens that precede the generated ones. The run
    continues after prompt and prefix: its first new token has output position ``len(prefix)``, and
    its random draws start at that position. ``spent``: TV and regret of the prefix, where a run with
    them is continued."""

    prompt: PromptConfig
    target: ModelRef
    drafter: DrafterConfig
    rule: RuleConfig
    sampling: Sampling = Sampling()
    max_new_tokens: int = 128  # without the prefix
    seed: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[int, ...] = ()
    spent: tuple[float, ...] = ()

    @property
    def served(self) -> bool:
        """Whether a server ran it: its address is in the environment."""
        return SERVER in self.environment

    @property
    def shift_kind(self) -> ShiftKind:
        """What TV and KL of its tokens are."""
        return ShiftKind.recorded(self.environment)

    @property
    def draws_otherwise(self) -> bool:
        """Whether the run was drawn here by another sampler, so that it would now write another
        text with its seed."""
        drawn = self.environment.get("sampler") != SAMPLER and self.sampling.temperature > 0
        return drawn and not self.served
