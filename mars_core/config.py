"""Configuration of a run: prompt, models, drafter, rule, sampling. Every value is frozen.

Other modules import these names from ``mars_core.types``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class DraftMode(StrEnum):
    """How the drafter picks its tokens: its most likely one, or one sampled from q."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Sampling:
    """The warpers of the target, in the order temperature, top-k, top-p. ``top_k=0`` and ``top_p=1`` switch them off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A causal language model: a Hub id with a revision, or a local folder. ``revision`` is the resolved commit once loaded."""

    name: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class RuleConfig:
    """A verification rule and its parameters, e.g. ``RuleConfig("mars", {"theta": 0.9})``. ``none`` drafts nothing."""

    name: str = "strict"
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A dynamic draft tree: the ``top_k`` best nodes of every depth are expanded, the best ``tokens`` nodes are drafted."""

    tokens: int = 60  # drafted nodes; the root is not one
    depth: int = 7
    top_k: int = 10


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """Where drafts come from. ``kind``: ``model``, ``eagle3``, ``ngram`` or ``none``; a chain of ``k`` tokens per step, or a tree."""

    kind: str = "model"
    model: ModelRef | None = None
    k: int = 5  # of chains
    mode: DraftMode = DraftMode.GREEDY
    tree: TreeShape | None = None  # eagle3 only


class PassShape(NamedTuple):
    """The shape of all passes of the target in an exact run: ``rows`` tokens (padded where fewer are read) over the first
    ``width`` positions of its cache. With a single shape the logits of a row do not depend on the other rows, in any dtype."""

    rows: int
    width: int


class Exchange(NamedTuple):
    """An earlier turn of a conversation: prompt and answer."""

    user: str
    answer: str


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """A prompt and how it is encoded. ``history``: earlier turns, oldest first. ``thinking``: passed to chat
    templates that have such a switch as ``enable_thinking``; None leaves it to the template."""

    text: str
    system: str = ""
    chat: bool = True  # use the tokenizer's chat template where it has one
    stop: tuple[str, ...] = ()
    history: tuple[Exchange, ...] = ()
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything needed to repeat a run. ``environment`` holds versions of libraries and app, device and dtype.

    ``prefix``: ids of output tokens that are given, not generated. The run continues after prompt and prefix: its first new token
    has output position ``len(prefix)``, and its random draws start at that position. ``passes`` is set where the run is exact.
    """

    prompt: PromptConfig
    target: ModelRef
    drafter: DrafterConfig
    rule: RuleConfig
    sampling: Sampling = Sampling()
    max_new_tokens: int = 128  # without the prefix
    seed: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[int, ...] = ()
    passes: PassShape | None = None
