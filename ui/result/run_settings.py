"""The settings of a run as rows of a table: name, help, and how each is read. The same in the table of runs and in the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from evaluation.format import count
from mars_core.types import ModelRef, RunConfig
from ui.kit.labels import exact_text, lane_title, parameter_title
from ui.settings.form import thinking_word

_DRAFTERS = {"model": "draft model", "eagle3": "EAGLE-3 head", "ngram": "n-grams of the text", "none": "none"}


class HasConfig(Protocol):
    """Whatever has a configuration."""

    @property
    def config(self) -> RunConfig: ...


Setting = tuple[str, str, Callable[[HasConfig], str]]  # name, help, how it is read


def _parameters(run: HasConfig) -> str:
    return ", ".join(f"{parameter_title(name)} = {value:g}" for name, value in run.config.rule.parameters.items())


def _model(ref: ModelRef | None) -> str:
    if ref is None:
        return ""
    return f"{ref.name}@{ref.revision}" if ref.revision else ref.name


def _draft_length(run: HasConfig) -> str:
    drafter = run.config.drafter
    if drafter.kind == "none":
        return ""
    tree = drafter.tree
    return f"tree of {tree.tokens}, depth {tree.depth}, top-k {tree.top_k}" if tree else str(drafter.k)


def _mode(run: HasConfig) -> str:
    return run.config.drafter.mode.value if run.config.drafter.kind == "model" else ""


def _off(value: float, off: float) -> str:
    return "off" if value == off else f"{value:g}"


def _continued(run: HasConfig) -> str:
    given = len(run.config.prefix)
    return f"after {count(given)} given tokens" if given else ""


def _versions(run: HasConfig) -> str:
    told = {name: text for name, text in run.config.environment.items() if name not in ("device", "dtype")}
    return ", ".join(f"{name} {text}" for name, text in told.items())


SETTINGS: tuple[Setting, ...] = (
    ("Rule", "the verification rule", lambda run: lane_title(run.config)),
    ("Parameters", "of the rule", _parameters),
    ("Drafts from", "where drafted tokens come from", lambda run: _DRAFTERS.get(run.config.drafter.kind, run.config.drafter.kind)),
    ("Drafter", "model or head, with its revision", lambda run: _model(run.config.drafter.model)),
    ("K", "drafted tokens a step, or the shape of the draft tree", _draft_length),
    ("Draft mode", "how the drafter picks its tokens", _mode),
    ("Target", "with its revision", lambda run: _model(run.config.target)),
    ("Temperature", "0 is greedy", lambda run: f"{run.config.sampling.temperature:g}"),
    ("Top-k", "likeliest tokens that may be drawn", lambda run: _off(run.config.sampling.top_k, 0)),
    ("Top-p", "probability that may be drawn", lambda run: _off(run.config.sampling.top_p, 1)),
    ("Max new tokens", "at most so many are written", lambda run: str(run.config.max_new_tokens)),
    ("Seed", "of all uniforms", lambda run: str(run.config.seed)),
    ("Continued", "from a chosen token", _continued),
    ("Prompt", "what was asked", lambda run: run.config.prompt.text),
    ("System prompt", "said before it", lambda run: run.config.prompt.system),
    ("Chat template", "where the tokenizer has one", lambda run: "used" if run.config.prompt.chat else "not used"),
    ("Thinking", "of chat templates that have such a switch", lambda run: thinking_word(run.config.prompt.thinking)),
    ("Stop strings", "at which a text ends", lambda run: ", ".join(map(repr, run.config.prompt.stop))),
    ("Device", "on which it ran", lambda run: run.config.environment.get("device", "")),
    ("Number format", "of weights and activations", lambda run: run.config.environment.get("dtype", "")),
    ("Exact", "whether all passes of the target had one shape", lambda run: exact_text(run.config)),
    ("Versions", "of program and libraries", _versions),
)  # fmt: skip
