"""What ``--model_args`` say: which models, drafter and rule, and where runs and telemetry are kept. Loads nothing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mars_core.arguments import read_spec
from mars_core.models import CATALOG, Pair, PairSpec
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, DraftMode, RuleConfig, TreeShape

_KINDS = ("eagle3", "ngram", PLAIN)
_TREE = TreeShape()


class Refused(ValueError):
    """Something that was asked for and cannot be run, in one sentence."""


@dataclass(frozen=True, slots=True)
class Options:
    """``rule``: one of RULES; any of its parameters may stand beside it. ``drafter``: a draft model's folder or Hub id,
    ``eagle3`` (the pair's head), ``eagle3:FOLDER``, ``ngram`` or ``none``; None is the pair's own.

    ``seed``: None takes lm-eval's ``--seed``. ``max_new_tokens``: where a task does not say. ``max_length``: prompt and answer in tokens,
    None for the models' own. ``db``: URL of a database that keeps every run. ``telemetry``: a folder.
    """

    pair: str = "bundled"
    target: str | None = None
    drafter: str | None = None
    rule: str = "mars"
    parameters: Mapping[str, float] = field(default_factory=dict)
    k: int = 5
    draft_mode: str = DraftMode.GREEDY.value
    chain: bool = False  # eagle3: a chain of k, not a tree
    tree_tokens: int = _TREE.tokens
    tree_depth: int = _TREE.depth
    tree_top_k: int = _TREE.top_k
    seed: int | None = None
    max_new_tokens: int = 256  # as the model ``hf`` has it
    max_length: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    graphs: bool = True
    exact: str = "auto"
    enable_thinking: bool | None = None  # an argument of some chat templates
    think_end_token: str | None = None  # the answer is what follows the last one
    db: str | None = None
    telemetry: str | None = None

    @property
    def spec(self) -> PairSpec:
        """The pair that is asked for. Raises ModelError for a name that is none."""
        return read_spec(argparse.Namespace(pair=self.pair, target=self.target, drafter=self.drafter))

    @property
    def rule_config(self) -> RuleConfig:
        return RuleConfig(self.rule, self.parameters)

    def drafter_config(self, pair: Pair) -> DrafterConfig:
        """For models that are loaded: what of them drafts, and how."""
        kind = (self.drafter or "").partition(":")[0]
        if PLAIN in (self.rule, kind):
            return DrafterConfig(PLAIN)
        if kind not in _KINDS:
            kind = "model" if self.drafter or pair.draft else "eagle3" if pair.head else "ngram"
        tree = TreeShape(self.tree_tokens, self.tree_depth, self.tree_top_k)
        mode = DraftMode(self.draft_mode)
        return DrafterConfig(kind, None, self.k, mode, tree if kind == "eagle3" and not self.chain else None)


_READ = {
    "pair": str, "target": str, "drafter": str, "rule": str, "draft_mode": str, "device": str, "dtype": str, "exact": str, "db": str,
    "telemetry": str, "think_end_token": str, "k": int, "tree_tokens": int, "tree_depth": int, "tree_top_k": int,
    "seed": int, "max_new_tokens": int, "max_length": int, "chain": bool, "graphs": bool, "enable_thinking": bool,
}  # fmt: skip
_LM_EVAL = ("batch_size", "max_batch_size", "model")  # lm-eval gives these; the engine's batch is always one run
_OTHER_NAMES = {"pretrained": "target", "max_gen_toks": "max_new_tokens"}
_WORDS_OF_NONE = ("rule", "drafter")  # lm-eval makes None of the word none


def read_options(given: Mapping[str, Any]) -> Options:
    """The options of lm-eval's ``--model_args``. Raises Refused for a name that means nothing and a value of the wrong kind."""
    named = {_OTHER_NAMES.get(name, name): value for name, value in given.items()}
    named |= {name: PLAIN for name in _WORDS_OF_NONE if name in named and named[name] is None}
    wanted = {name: value for name, value in named.items() if name not in _LM_EVAL and value is not None}
    known = {name: _value(name, wanted.pop(name)) for name in list(wanted) if name in _READ}
    options = Options(**known)
    _check_words(options)
    return Options(**known, parameters=_parameters(options.rule, wanted))


def _value(name: str, value: Any) -> Any:
    kind = _READ[name]
    if kind is str:
        return str(value)
    if (
        isinstance(value, bool) is not (kind is bool)
        or not isinstance(value, bool | int | float)
        or value != int(value)
    ):
        raise Refused(f"{name} is {value!r}; it must be {'true or false' if kind is bool else 'a whole number'}.")
    return kind(value)


def _check_words(options: Options) -> None:
    pairs = [spec.key for spec in CATALOG]
    choices = {"pair": pairs, "rule": list(RULES), "draft_mode": [mode.value for mode in DraftMode]}
    for name, allowed in choices.items():
        if (value := getattr(options, name)) not in allowed:
            raise Refused(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    for name in ("max_new_tokens", "max_length"):
        if (number := getattr(options, name)) is not None and number < 1:
            raise Refused(f"{name} is {number}; it must be at least 1.")


def _parameters(rule: str, given: Mapping[str, Any]) -> dict[str, float]:
    """What is no option is a parameter of the rule."""
    of_rule = RULES[rule]
    known = [parameter.name for parameter in of_rule.parameters]
    for name, value in given.items():
        if name not in known:
            options = [each.name for each in fields(Options) if each.name != "parameters"]
            raise Refused(
                f"{name} is no argument of the model mars with rule {rule}; it takes {', '.join(known + options)}."
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{name} is {value!r}; it must be a number.")
    try:
        return of_rule.values(given)
    except ValueError as error:
        raise Refused(str(error)) from None
