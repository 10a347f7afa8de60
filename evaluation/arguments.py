"""The command line's options, and how they become a plan. Runs nothing and prints nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from evaluation.study.plan import Lane, Models, Plan
from evaluation.suites.read import read_suite
from mars_core.arguments import MACHINE_OPTIONS, add_options
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, DraftMode, RuleConfig, TreeShape

if TYPE_CHECKING:
    from mars_core.models import Pair

RULES_BY_DEFAULT = "none,strict,mars"


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m evaluation",
        description="Does a relaxed rule keep the answers right? Paired studies of verification rules on suites of prompts.",
    )
    commands = root.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="plan a study and run it", description="Plan a study and run it.")
    _add_plan(run)
    _add_models(run)
    _add_store(run)
    _add_work(run)
    run.add_argument("--quiet", action="store_true", help="no lines of progress")
    run.add_argument("--plan-only", action="store_true", help="keep the plan, print its id and end; resume runs it")
    resume = commands.add_parser("resume", help="go on with a study, or help others with it")
    _add_study(resume)
    _add_work(resume)
    resume.add_argument("--quiet", action="store_true", help="no lines of progress")
    resume.add_argument("--failed", action="store_true", help="run the tasks with failed lanes again")
    _add_reports(commands)
    lm_eval = commands.add_parser(
        "lm_eval", help="lm-eval's own command, with the model mars and our tasks", add_help=False
    )
    lm_eval.add_argument("rest", nargs=argparse.REMAINDER)
    return root


def _add_reports(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_store(commands.add_parser("list", help="the studies of the database, latest first"))
    report = commands.add_parser("report", help="what a study says; to the terminal, or as files")
    _add_study(report)
    report.add_argument("--markdown", metavar="FILE", help="write Markdown, with its chart as SVG beside it")
    report.add_argument("--folder", metavar="FOLDER", help="write HTML, Markdown, chart and CSV into a folder")
    shapes = commands.add_parser("export", help="answers in the shapes of lm-eval and Spec-Bench, as JSON")
    _add_study(shapes)
    shapes.add_argument("--folder", metavar="FOLDER", required=True)
    judge = commands.add_parser(
        "judge", help="pairwise judging by a language model behind an OpenAI-compatible endpoint"
    )
    _add_study(judge)
    judge.add_argument("--url", help="base URL of the endpoint (else MARS_JUDGE_URL)")
    judge.add_argument("--model", help="the judge (else MARS_JUDGE_MODEL); the key is read from MARS_JUDGE_KEY")
    judge.add_argument("--limit", type=int, help="at most so many pairs of answers")
    _add_study(commands.add_parser("delete", help="remove a study; its comparisons can be brought back for 30 days"))


def _add_plan(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--suite",
        action="append",
        required=True,
        metavar="NAME|FILE",
        help="demo_arithmetic, demo_stories, or a file in the question.jsonl format; may be repeated",
    )
    command.add_argument("--limit", type=int, help="only the first items of every suite")
    command.add_argument("--skip-long", action="store_true", help="leave out items that do not fit into the context")
    command.add_argument("--name", default="", help="for people")
    command.add_argument(
        "--rules", default=RULES_BY_DEFAULT, help=f"of {', '.join(RULES)} (default {RULES_BY_DEFAULT})"
    )
    command.add_argument("--theta", default="", help="values of θ, e.g. 0.84,0.9,0.96, for every rule that takes it")
    command.add_argument(
        "--set", action="append", default=[], metavar="RULE.NAME=V1,V2", help="values of any parameter; may be repeated"
    )
    command.add_argument(
        "--drafter", default="", help="of model, eagle3, ngram; several by commas (default: the pair's)"
    )
    command.add_argument("--k", type=int, default=5, help="drafted tokens a step, of chains (default 5)")
    command.add_argument(
        "--tree", default="", metavar="N/D/K", help="eagle3: tokens/depth/top-k of a tree; else a chain of K"
    )
    command.add_argument("--draft-mode", choices=[mode.value for mode in DraftMode], default=DraftMode.GREEDY.value)
    command.add_argument("--temperature", default="0", help="one or more, by commas (default 0)")
    command.add_argument("--top-k", type=int, default=0, help="0 is off (default)")
    command.add_argument("--top-p", type=float, default=1.0, help="1 is off (default)")
    command.add_argument("--seeds", type=int, default=1, help="how many seeds every item is run with (default 1)")
    command.add_argument("--seed", type=int, default=0, help="the first one")
    command.add_argument("--max-new-tokens", type=int, default=256)
    command.add_argument("--system", default="", help="system prompt")
    command.add_argument("--no-chat", action="store_true", help="without the chat template")
    command.add_argument(
        "--thinking", choices=("on", "off"), help="of chat templates that have it (default: the template's own)"
    )
    command.add_argument("--stop", action="append", default=[], help="stop string; may be repeated")
    command.add_argument(
        "--margin",
        type=float,
        default=0.98,
        help="recovery that you hold to be enough, stated before the run (default 0.98)",
    )
    command.add_argument(
        "--execute-code",
        action="store_true",
        help="run code that the models wrote, to score it: in a subprocess with limits, which is no full protection (docs/evaluation.md)",
    )


def _add_models(command: argparse.ArgumentParser) -> None:
    command.add_argument("--pair", default="bundled", help="a pair of the catalog (python -m mars_core models)")
    command.add_argument("--target", help="Hub id (owner/name@revision) or folder, in place of --pair")
    command.add_argument("--draft", help="Hub id or folder of a draft model")
    command.add_argument("--head", help="Hub id or folder of an EAGLE-3 head")


def _add_study(command: argparse.ArgumentParser) -> None:
    command.add_argument("study", help="id of a study, or the beginning of one; latest: the last that was planned")
    _add_store(command)


def _add_store(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--db",
        help="sqlite:////folder/file.db or postgresql://… (else MARS_DATABASE_URL, else the page's own database)",
    )


def _add_work(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=int, default=1, help="processes on this machine (default 1)")
    command.add_argument("--threads", type=int, help="threads of each worker (default: the cores, shared evenly)")
    add_options(command, MACHINE_OPTIONS)


def read_plan_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """The plan that is asked for on these models. Raises ValueError."""
    suites = tuple(read_suite(source, options.limit) for given in options.suite for source in given.split(","))
    return Plan(
        name=options.name or ", ".join(suite.name for suite in suites),
        models=Models(pair.spec.key, pair.target_ref, pair.draft_ref, pair.head_ref),
        suites=suites,
        lanes=_lanes(options, pair),
        temperatures=_numbers("--temperature", options.temperature),
        repeats=options.seeds,
        seed=options.seed,
        top_k=options.top_k,
        top_p=options.top_p,
        max_new_tokens=options.max_new_tokens,
        system=options.system,
        chat=not options.no_chat,
        thinking=None if options.thinking is None else options.thinking == "on",
        stop=tuple(options.stop),
        margin=options.margin,
        execute_code=options.execute_code,
        limit=options.limit,
        skip_long=options.skip_long,
    )


def _lanes(options: argparse.Namespace, pair: Pair) -> tuple[Lane, ...]:
    names = [name.strip() for name in options.rules.split(",") if name.strip()]
    if unknown := [name for name in names if name not in RULES]:
        raise ValueError(f"--rules names {unknown[0]!r}; it must be of {', '.join(RULES)}.")
    rules = [rule for name in names if name != PLAIN for rule in _rule(name, options)]
    _check_parameters(options, names)
    lanes = [Lane(rule, drafter) for drafter in _drafters(options, pair) for rule in rules]
    none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in names else []
    return (*none, *lanes)


def _rule(name: str, options: argparse.Namespace) -> list[RuleConfig]:
    """A rule with every combination of the values that were given for its parameters."""
    given = _parameters(options)
    varied = {}
    for parameter in RULES[name].parameters:
        values = given.get((name, parameter.name)) or given.get(("", parameter.name))
        if values:
            varied[parameter.name] = values
    combinations = product(*varied.values())
    return [RuleConfig(name, RULES[name].values(dict(zip(varied, each, strict=True)))) for each in combinations]


def _parameters(options: argparse.Namespace) -> dict[tuple[str, str], tuple[float, ...]]:
    """(rule, parameter) → values; the rule is empty for ``--theta``."""
    found = {("", "theta"): _numbers("--theta", options.theta)} if options.theta else {}
    for item in options.set:
        left, _, values = item.partition("=")
        rule, _, name = left.rpartition(".")
        if not rule or not values:
            raise ValueError(f"--set is {item!r}; it takes RULE.NAME=VALUE, or several values by commas.")
        found[rule, name] = _numbers(f"--set {left}", values)
    return found


def _check_parameters(options: argparse.Namespace, names: Sequence[str]) -> None:
    known = {(rule, each.name) for rule in names if rule in RULES for each in RULES[rule].parameters}
    for rule, name in _parameters(options):
        if (rule, name) not in known and (rule or name not in {each for _, each in known}):
            said = f"{rule}.{name}" if rule else name
            choices = ", ".join(sorted(".".join(each) for each in known)) or "none"
            raise ValueError(f"No rule of the study has a parameter {said}; there are: {choices}.")


def _drafters(options: argparse.Namespace, pair: Pair) -> list[DrafterConfig]:
    kinds = [kind.strip() for kind in options.drafter.split(",") if kind.strip()]
    kinds = kinds or ["model" if pair.draft else "eagle3" if pair.head else "ngram"]
    tree = _tree(options.tree) if options.tree else None
    if tree and "eagle3" not in kinds:
        raise ValueError("--tree is given and eagle3 is not among the drafters; only eagle3 drafts trees.")
    mode = DraftMode(options.draft_mode)
    return [
        DrafterConfig(
            kind,
            None,
            options.k,
            mode if kind == "model" else DraftMode.GREEDY,
            tree if kind == "eagle3" else None,
        )
        for kind in kinds
    ]


def _tree(said: str) -> TreeShape:
    parts = said.split("/")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(f"--tree is {said!r}; it takes tokens/depth/top-k, e.g. 60/7/10.")
    return TreeShape(*map(int, parts))


def _numbers(name: str, said: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in said.split(","))
    except ValueError:
        raise ValueError(f"{name} is {said!r}; it takes numbers, several by commas.") from None
