"""The command line's options, and how they become a pair and RunConfigs. Runs nothing and prints nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.models.pool import EXACT
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, RuleConfig, RunConfig, Sampling, TreeShape

if TYPE_CHECKING:
    from mars_core.models import Pair

_KINDS = ("eagle3", "ngram", PLAIN)
_TREE = TreeShape()
_MODES = [mode.value for mode in DraftMode]
Options = dict[str, dict[str, Any]]  # by name: what argparse takes

MACHINE_OPTIONS: Options = {
    "--device": {"default": "auto", "help": "auto, cpu, cuda, cuda:1"},
    "--dtype": {"default": "auto", "help": "auto, float32, bfloat16, float16"},
    "--no-graphs": {"action": "store_true", "help": "on CUDA: do not record steps as CUDA graphs"},
    "--exact": {"choices": EXACT, "default": "auto",
                "help": "one shape for all passes of the target (default auto: not on a CPU in float32)"},
}  # fmt: skip
_PROMPT_OPTIONS: Options = {
    "--system": {"default": "", "help": "system prompt"},
    "--no-chat": {"action": "store_true", "help": "continue the prompt as it is, without the chat template"},
    "--thinking": {"choices": ("on", "off"), "help": "of chat templates that have it (default: the template's own)"},
    "--stop": {"action": "append", "default": [], "help": "stop string; may be repeated"},
}
_RUN_OPTIONS: Options = {
    "--theta": {"type": float, "help": "θ of the rules that take it (default 0.9)"},
    "--set": {"action": "append", "default": [], "metavar": "NAME=VALUE", "help": "any parameter of a rule"},
    "--k": {"type": int, "default": 5, "help": "drafted tokens a step, of chains (default 5)"},
    "--chain": {"action": "store_true", "help": "eagle3: draft a chain of K, not a tree"},
    "--tree-tokens": {"type": int, "default": _TREE.tokens, "help": f"eagle3: drafted nodes (default {_TREE.tokens})"},
    "--tree-depth": {"type": int, "default": _TREE.depth, "help": f"eagle3: longest path (default {_TREE.depth})"},
    "--tree-top-k": {"type": int, "default": _TREE.top_k, "help": f"eagle3: nodes expanded a depth (default {_TREE.top_k})"},
    "--draft-mode": {"choices": _MODES, "default": DraftMode.GREEDY.value},
    "--temperature": {"type": float, "default": 0.0, "help": "0 is greedy (default)"},
    "--top-k": {"type": int, "default": 0, "help": "0 is off (default)"},
    "--top-p": {"type": float, "default": 1.0, "help": "1 is off (default)"},
    "--max-new-tokens": {"type": int, "default": 128},
    "--seed": {"type": int, "default": 0},
    "--pair": {"default": "bundled", "choices": [spec.key for spec in CATALOG], "help": "a pair of the catalog"},
    "--target": {"help": "Hub id (owner/name@revision) or folder, in place of --pair"},
    "--drafter": {"help": "Hub id or folder of a draft model, eagle3 (the pair's head), eagle3:ID or FOLDER, ngram, or none"},
    "--json": {"action": "store_true", "help": "print one JSON object"},
}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m mars_core", description="Strict and margin-aware speculative decoding."
    )
    commands = root.add_subparsers(dest="command", required=True)
    rules = f"{', '.join(RULES)} (default mars)"
    for name, words, rule in (
        ("run", "decode one prompt with one rule", rules),
        ("compare", "decode one prompt strictly and with one or more other rules", f"compared with strict; may be repeated: {rules}"),
    ):  # fmt: skip
        command = commands.add_parser(name, help=words, description=words.capitalize() + ".")
        prompt = command.add_mutually_exclusive_group(required=True)
        prompt.add_argument("--prompt", help="the prompt; - reads standard input")
        prompt.add_argument("--prompt-file", type=argparse.FileType(encoding="utf-8"), help="a file with the prompt")
        rule_option: Options = {"--rule": {"action": "append", "help": rule}}
        add_options(command, _PROMPT_OPTIONS | rule_option | _RUN_OPTIONS | MACHINE_OPTIONS)
    add_options(
        commands.add_parser("models", help="list the pairs, what they need and whether they fit here"), MACHINE_OPTIONS
    )
    commands.add_parser("rules", help="list the verification rules with formula, parameters and source")
    return root


def add_options(command: argparse.ArgumentParser, options: Options) -> None:
    for name, keywords in options.items():
        command.add_argument(name, **keywords)


def read_spec(options: argparse.Namespace) -> PairSpec:
    """The pair that is asked for. Raises ModelError."""
    chosen = next(spec for spec in CATALOG if spec.key == options.pair)
    kind, path = _drafter(options)
    draft, head = (path, None) if kind == "model" else (None, path)
    if options.target is not None:
        return custom_pair(options.target, draft, head)
    if path is None:
        return chosen
    return replace(custom_pair(chosen.target, draft or chosen.draft, head or chosen.head), title=chosen.title)


def _drafter(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """Kind and model of ``--drafter``; None where they are left to the pair."""
    given = options.drafter
    if given is None or given in _KINDS:
        return given, None
    kind, _, path = given.partition(":")
    return (kind, path) if kind == "eagle3" and path else ("model", given)


def read_configs(options: argparse.Namespace, pair: Pair) -> list[RunConfig]:
    """One RunConfig for each rule; for ``compare`` the strict one first. Raises ValueError."""
    rules: list[str] = options.rule or ["mars"]
    if options.command == "run" and len(rules) > 1:
        raise ValueError(f"--rule is given {len(rules)} times; run takes 1 rule, compare takes several.")
    if options.command == "compare":
        rules = ["strict", *(rule for rule in dict.fromkeys(rules) if rule != "strict")]
    given = _parameters(options, rules)
    return [_config(options, pair, rule, given) for rule in rules]


def _config(options: argparse.Namespace, pair: Pair, rule: str, given: dict[str, float]) -> RunConfig:
    from mars_core.session import run_config  # here: who only reads options needs no models' libraries

    kind = _drafter(options)[0] or ("model" if pair.draft else "eagle3" if pair.head else "ngram")
    tree = TreeShape(options.tree_tokens, options.tree_depth, options.tree_top_k)
    tree_wanted = kind == "eagle3" and not options.chain
    drafter = DrafterConfig(kind, None, options.k, DraftMode(options.draft_mode), tree if tree_wanted else None)
    thinking = None if options.thinking is None else options.thinking == "on"
    own = {parameter.name for parameter in RULES[rule].parameters} if rule in RULES else set()
    return run_config(
        pair,
        prompt=PromptConfig(
            _prompt(options), options.system, not options.no_chat, tuple(options.stop), thinking=thinking
        ),
        rule=RuleConfig(rule, {name: given[name] for name in given if name in own}),
        drafter=DrafterConfig(PLAIN) if rule == PLAIN else drafter,
        sampling=Sampling(options.temperature, options.top_k, options.top_p),
        max_new_tokens=options.max_new_tokens,
        seed=options.seed,
    )


def _parameters(options: argparse.Namespace, rules: Sequence[str]) -> dict[str, float]:
    given = {} if options.theta is None else {"theta": float(options.theta)}
    for item in options.set:
        name, _, value = item.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            raise ValueError(f"--set is {item!r}; it takes NAME=VALUE with a number as value.") from None
    known = {parameter.name for rule in rules if rule in RULES for parameter in RULES[rule].parameters}
    if unknown := [name for name in given if name not in known]:
        raise ValueError(
            f"No rule of {', '.join(rules)} has a parameter {unknown[0]}; known: {', '.join(sorted(known)) or 'none'}."
        )
    return given


def _prompt(options: argparse.Namespace) -> str:
    """Read once: a file or standard input cannot be read again for the second rule."""
    if options.prompt_file is not None:
        options.prompt = options.prompt_file.read()
        options.prompt_file = None
    elif options.prompt == "-":
        options.prompt = sys.stdin.read()
    return str(options.prompt)
