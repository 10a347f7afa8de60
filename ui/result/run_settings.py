"""The settings of a run as rows of a table: name, help, and how each is read. The same in the table of runs and in the report."""

from __future__ import annotations

from collections.abc import Callable

from evaluation.format import count
from mars_core.types import ModelRef, RunConfig
from ui.kit.labels import exact_text, lane_title, parameter_title
from ui.settings.form import thinking_word

_DRAFTERS = {"model": "draft model", "eagle3": "EAGLE-3 head", "ngram": "n-grams of the text", "none": "none"}
Setting = tuple[str, str, Callable[[RunConfig], str]]  # name, help, how it is read


def _model(ref: ModelRef | None) -> str:
    if ref is None:
        return ""
    return f"{ref.name}@{ref.revision}" if ref.revision else ref.name


def _draft_length(config: RunConfig) -> str:
    k, tree = config.drafter.k, config.drafter.tree
    if config.drafter.kind == "none":
        return ""
    return f"tree of {tree.tokens}, depth {tree.depth}, top-k {tree.top_k}" if tree else str(k)


def _off(value: float, off: float) -> str:
    return "off" if value == off else f"{value:g}"


def _parameters(config: RunConfig) -> str:
    return ", ".join(f"{parameter_title(name)} = {value:g}" for name, value in config.rule.parameters.items())


def _versions(config: RunConfig) -> str:
    return ", ".join(f"{name} {text}" for name, text in config.environment.items() if name not in ("device", "dtype"))


SETTINGS: tuple[Setting, ...] = (
    ("Rule", "the verification rule", lane_title),
    ("Parameters", "of the rule", _parameters),
    ("Drafts from", "where drafted tokens come from", lambda c: _DRAFTERS.get(c.drafter.kind, c.drafter.kind)),
    ("Drafter", "model or head, with its revision", lambda c: _model(c.drafter.model)),
    ("K", "drafted tokens a step, or the shape of the draft tree", _draft_length),
    ("Draft mode", "how the drafter picks its tokens", lambda c: c.drafter.mode.value if c.drafter.kind == "model" else ""),
    ("Target", "with its revision", lambda c: _model(c.target)),
    ("Temperature", "0 is greedy", lambda c: f"{c.sampling.temperature:g}"),
    ("Top-k", "likeliest tokens that may be drawn", lambda c: _off(c.sampling.top_k, 0)),
    ("Top-p", "probability that may be drawn", lambda c: _off(c.sampling.top_p, 1)),
    ("Max new tokens", "at most so many are written", lambda c: str(c.max_new_tokens)),
    ("Seed", "of all uniforms", lambda c: str(c.seed)),
    ("Continued", "from a chosen token", lambda c: f"after {count(len(c.prefix))} given tokens" if c.prefix else ""),
    ("Prompt", "what was asked", lambda c: c.prompt.text),
    ("System prompt", "said before it", lambda c: c.prompt.system),
    ("Chat template", "where the tokenizer has one", lambda c: "used" if c.prompt.chat else "not used"),
    ("Thinking", "of chat templates that have such a switch", lambda c: thinking_word(c.prompt.thinking)),
    ("Stop strings", "at which a text ends", lambda c: ", ".join(map(repr, c.prompt.stop))),
    ("Device", "on which it ran", lambda c: c.environment.get("device", "")),
    ("Number format", "of weights and activations", lambda c: c.environment.get("dtype", "")),
    ("Exact", "whether all passes of the target had one shape", exact_text),
    ("Versions", "of program and libraries", _versions),
)  # fmt: skip
