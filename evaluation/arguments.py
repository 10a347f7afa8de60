"""The options of ``mars eval`` and ``mars check``, and their conversion to a plan."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from evaluation.study.plan import BASELINE, SERVER, Lane, Models, Plan, Served, with_placebos
from evaluation.suites.read import BUILT_IN, read_suite
from evaluation.suites.typed import typed_suite
from mars_core.arguments import (
    DRAFT_OPTIONS,
    MACHINE_OPTIONS,
    PAIR_OPTIONS,
    PROMPT_OPTIONS,
    RULE_OPTIONS,
    SAMPLING_OPTIONS,
    Commands,
    Options,
    add_options,
    read_numbers,
    read_processors,
    read_rules,
    read_thinking,
)
from mars_core.drafting import drafter_kind, offered
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, DraftMode, ModelRef, RuleConfig, TreeShape

if TYPE_CHECKING:
    from mars_core.models import Pair

_RULES, _SERVED_RULES, _TWO_SERVERS = "none,strict,mars", "strict,mars", "strict,server"  # defaults
# Fields of Plan that are options of the same name.
_SAME = (
    "seed",
    "top_k",
    "top_p",
    "max_new_tokens",
    "system",
    "margin",
    "execute_code",
    "limit",
    "skip_long",
)
_STORE: Options = {
    "--db": {
        "help": "sqlite:////folder/file.db or postgresql://… (else MARS_DATABASE_URL, else the page's own database)"
    },
}
_STUDY: Options = {
    "study": {"help": "id of a study, or a unique prefix; latest: the last one planned"}
} | _STORE
_RAY: Options = {
    "--ray": {
        "nargs": "?",
        "const": "local",
        "metavar": "ADDRESS",
        "help": "run on a Ray cluster: a new one on this machine, or the one at this address",
    }
}
_PROCESS: Options = MACHINE_OPTIONS | {
    "--threads": {
        "type": int,
        "help": "threads of a process (default: OMP_NUM_THREADS, else every core)",
    },
    "--quiet": {"action": "store_true", "help": "do not print progress"},
}
_WORK: Options = _PROCESS | _RAY
_PLAN: Options = (
    PAIR_OPTIONS
    | PROMPT_OPTIONS
    | RULE_OPTIONS
    | DRAFT_OPTIONS
    | SAMPLING_OPTIONS
    | {
        "--suite": {
            "action": "append",
            "default": [],
            "metavar": "NAME|FILE",
            "help": f"{', '.join(BUILT_IN)}, or a file in the question.jsonl format; may be repeated",
        },
        "--prompt": {
            "action": "append",
            "default": [],
            "metavar": "TEXT",
            "help": "a prompt, or 'prompt => answer'; may be repeated. All together are the suite prompts",
        },
        "--limit": {"type": int, "help": "use only the first items of every suite"},
        "--skip-long": {
            "action": "store_true",
            "help": "leave out items that do not fit into the context",
        },
        "--name": {"default": "", "help": "a name for the study"},
        "--rules": {
            "default": "",
            "help": f"of {', '.join(RULES)} (default {_RULES}); with --server also server (docs/evaluation.md)",
        },
        "--draft": {"help": "Hub id or folder of a draft model"},
        "--head": {"help": "Hub id or folder of an EAGLE-3 head"},
        "--drafter": {
            "default": "",
            "help": f"of {', '.join(offered(None)[:-1])}; several separated by commas (default: the pair's)",
        },
        "--tree": {
            "default": "",
            "metavar": "N/D/K",
            "help": "eagle3: tokens/depth/top-k of a tree; else a chain of K",
        },
        "--temperature": {"default": "0", "help": "one or more, separated by commas (default 0)"},
        "--seeds": {"type": int, "default": 1, "help": "number of seeds per item (default 1)"},
        "--seed": {"type": int, "default": 0, "help": "the first seed (default 0)"},
        "--max-new-tokens": {
            "type": int,
            "default": 256,
            "help": "maximum number of new tokens per turn (default 256)",
        },
        "--no-placebos": {
            "action": "store_true",
            "help": "without random relaxation of as many tokens as each rule, and without keeping all drafts",
        },
        "--margin": {
            "type": float,
            "default": 0.98,
            "help": "required recovery, chosen before the run (default 0.98)",
        },
        "--execute-code": {
            "action": "store_true",
            "help": "run code written by the models in a sandbox, to score it (limits: docs/evaluation.md)",
        },
        "--server": {
            "default": "",
            "metavar": "URL",
            "help": "measure an OpenAI-compatible server; the key is read from MARS_SERVER_KEY",
        },
        "--server-model": {
            "default": "",
            "metavar": "NAME",
            "help": "its model (default: the only one it has)",
        },
        "--baseline": {
            "default": "",
            "metavar": "URL",
            "help": "another server for the lane strict",
        },
        "--baseline-model": {
            "default": "",
            "metavar": "NAME",
            "help": "its model (default: the only one it has)",
        },
        "--concurrency": {
            "default": "1",
            "help": "requests in flight at a server; of several values each takes an equal part of the seeds",
        },
        "--k": {
            "default": "",
            "help": "drafted tokens per step, for chains; one or more, separated by commas (default: the pair's)",
        },
        "--batch": {
            "default": "",
            "metavar": "auto|N1,N2",
            "help": "runs to decode together (default 1; auto: measured): faster, but without times of single runs; "
            "of several numbers each decodes every task, to compare their throughput",
        },
        "--time-alone": {
            "type": int,
            "default": 0,
            "metavar": "N",
            "help": "with --batch: decode N random tasks alone, for their times",
        },
        "--plan-only": {
            "action": "store_true",
            "help": "store the plan, print its id and exit; resume runs it",
        },
    }
)
_NOT_CHOSEN = (
    "server",
    "server-model",
    "baseline",
    "baseline-model",
    "concurrency",
    "theta",
    "set",
)
# of commands that choose the parameters themselves, on models of this program
_CHOOSING: Options = {
    name: each
    for name, each in _PLAN.items()
    if name[2:] not in (*_NOT_CHOSEN, "no-placebos", "plan-only")
} | {
    "--rules": {
        "default": "",
        "help": "rules with a margin threshold, separated by commas (default mars); none: measure it too",
    },
}
_ADVISE: tuple[str, Options] = (
    "find the fastest setting that keeps strict's score, by a test in a fixed order",
    _CHOOSING
    | {
        "--alpha": {
            "type": float,
            "default": 0.05,
            "help": "the probability that the setting does not keep it (default 0.05)",
        },
        "--json": {"action": "store_true", "help": "print one JSON object"},
    }
    | _STORE
    | _WORK,
)
_CHECK: tuple[str, Options] = (
    "check whether a server with speculative decoding is lossless",
    {
        "--server": {
            "required": True,
            "metavar": "URL",
            "help": "an OpenAI-compatible server; the key is read from MARS_SERVER_KEY",
        },
        "--server-model": {
            "metavar": "NAME",
            "help": "name of the served model (default: the only one)",
        },
        "--against": {
            "metavar": "URL",
            "help": "a server of the same model without speculative decoding",
        },
        "--against-model": {
            "metavar": "NAME",
            "help": "name of its model (default: the only one)",
        },
        "--draws": {
            "type": int,
            "default": 100,
            "help": "short answers per prompt and server at temperature 1 (default 100)",
        },
        "--seed": {"type": int, "default": 0, "help": "seed of the first of them (default 0)"},
        "--prompts": {
            "metavar": "FILE",
            "help": "one prompt per line (default: ten of this program)",
        },
        "--json": {"metavar": "FILE", "help": "write the verdicts as JSON too"},
    },
)
_COMMANDS: dict[str, tuple[str, Options]] = {
    "run": ("plan a study and run it", _PLAN | _STORE | _WORK),
    "match": (
        "compare rules at equal τ, or equal speed-up over none",
        _CHOOSING
        | {
            "--tau": {"type": float, "help": "the mean acceptance length that each rule is set to"},
            "--speed": {"type": float, "help": "or the speed-up over none, which is measured too"},
        }
        | _STORE
        | _WORK,
    ),
    "resume": (
        "continue a study",
        _STUDY
        | _WORK
        | {"--failed": {"action": "store_true", "help": "run the tasks with failed lanes again"}},
    ),
    "list": ("list the studies in the database, latest first", _STORE),
    "report": (
        "report a study, to the terminal or as files",
        _STUDY
        | {
            "--markdown": {
                "metavar": "FILE",
                "help": "write Markdown, with its chart as SVG beside it",
            },
            "--folder": {
                "metavar": "FOLDER",
                "help": "write HTML, Markdown, chart and CSV into a folder",
            },
        },
    ),
    "plan": (
        "predict the throughput of other batches and K from what a study measured",
        _STUDY
        | {
            "--batch": {"default": "1,2,4,8,16,32,64", "help": "sizes (default %(default)s)"},
            "--k": {"default": "1,2,3,5,8", "help": "drafted tokens (default %(default)s)"},
            "--markdown": {
                "metavar": "FILE",
                "help": "write Markdown, with its chart as SVG beside it",
            },
        },
    ),
    "export": (
        "write answers in the formats of lm-eval and Spec-Bench, as JSON",
        _STUDY | {"--folder": {"metavar": "FOLDER", "required": True}},
    ),
    "judge": (
        "judge pairs of answers by a language model with an OpenAI-compatible endpoint",
        _STUDY
        | {
            "--url": {"help": "base URL of the endpoint (else MARS_JUDGE_URL)"},
            "--model": {
                "help": "model name of the judge (else MARS_JUDGE_MODEL); the key is read from MARS_JUDGE_KEY"
            },
            "--limit": {"type": int, "help": "maximum number of answer pairs"},
        },
    ),
    "follow": (
        "what follows the relaxed tokens of a study, and what would have if they had been rejected",
        _STUDY
        | _PROCESS
        | {
            "--sample": {
                "type": int,
                "metavar": "N",
                "help": "of each run N random relaxed tokens (default: all)",
            },
            "--batch": {
                "default": "auto",
                "metavar": "auto|N",
                "help": "continuations to decode together (default auto)",
            },
        },
    ),
    "delete": ("remove a study; its comparisons can be restored for 30 days", _STUDY),
}


def add_check(commands: Commands) -> None:
    _add(commands, "check", *_CHECK)
    _add(commands, "advise", *_ADVISE)


def add_commands(commands: Commands) -> None:
    for name, (summary, options) in _COMMANDS.items():
        _add(commands, name, summary, options)
    commands.add_parser(
        "lm_eval", help="lm-eval's own command, with the model mars and our tasks", add_help=False
    )


def _add(commands: Commands, name: str, summary: str, options: Options) -> None:
    description = summary[0].upper() + summary[1:] + "."
    add_options(commands.add_parser(name, help=summary, description=description), options)


def read_plan_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """The plan given by the options, for these models. Raises ValueError."""
    models = Models.of(pair)
    names = _words(options.rules or _RULES)
    lanes = _lanes(options, names, _drafters(options, pair), pair.spec.theta.pair_value)
    return _plan(options, models, lanes if options.no_placebos else with_placebos(lanes))


def read_choosing_options(options: argparse.Namespace, pair: Pair) -> Plan:
    """The plan whose rules get their parameters from strict's runs. Raises ValueError."""
    names = [name for name in _words(options.rules or "mars") if name != BASELINE]
    options.rules = ",".join([BASELINE, *names])
    options.theta, options.set, options.no_placebos = "", [], True
    return read_plan_options(options, pair)


def read_served_options(
    options: argparse.Namespace, find_server: Callable[[str, str], tuple[str, str]]
) -> Plan:
    """The plan of a study on servers. ``find_server``: URL and model of a server, from what is
    given. Raises ValueError."""
    chosen = read_processors(options).chosen
    ours = (
        "target",
        "draft",
        "head",
        "classifier",
        "drafter",
        "tree",
        "skip_long",
        "batch",
        "time_alone",
    )
    for name in (*ours, "protect", *chosen):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} cannot be used with --server, which has models, drafts, processors and batches of its own."
            )
    if not options.server:
        raise ValueError(
            "--baseline is given without --server; it is the server of the lane strict beside another one."
        )
    server = find_server(options.server, options.server_model)
    baseline = (
        find_server(options.baseline, options.baseline_model) if options.baseline else ("", "")
    )
    served = Served(*server, *baseline, read_integers("--concurrency", options.concurrency))
    names = _words(options.rules or (_TWO_SERVERS if options.baseline else _SERVED_RULES))
    if PLAIN in names:
        why = "cannot be requested from a server; name a server that does not draft with --baseline"
        raise ValueError(f"The rule {PLAIN} {why}.")
    drafter = DrafterConfig(SERVER, None, 0)
    lanes = _lanes(options, [name for name in names if name != SERVER], [drafter])
    lanes += (Lane(RuleConfig(SERVER), drafter),) * names.count(SERVER)
    return _plan(options, Models(SERVER, ModelRef(served.model)), lanes, served)


def _plan(
    options: argparse.Namespace,
    models: Models,
    lanes: tuple[Lane, ...],
    served: Served | None = None,
) -> Plan:
    suites = [
        read_suite(source, options.limit)
        for sources in options.suite
        for source in sources.split(",")
    ]
    if options.prompt:
        suites.append(typed_suite(options.prompt))
    processors = read_processors(options)
    if not suites:
        raise ValueError("There is nothing to run; give --suite or --prompt.")
    return Plan(
        name=options.name or ", ".join(suite.name for suite in suites),
        models=models,
        suites=tuple(suites),
        lanes=lanes,
        temperatures=read_numbers("--temperature", options.temperature),
        repeats=options.seeds,
        chat=not options.no_chat,
        thinking=read_thinking(options),
        stop=tuple(options.stop),
        served=served,
        alone=options.time_alone,
        # a server decides by itself what it relaxes
        processors=replace(processors, protect=()) if served else processors,
        **{name: getattr(options, name) for name in _SAME},
    )


def _lanes(
    options: argparse.Namespace,
    names: list[str],
    drafters: list[DrafterConfig],
    theta: float | None = None,
) -> tuple[Lane, ...]:
    chosen = read_rules(names, options, theta)
    rules = [
        replace(rule, parameters=RULES[rule.name].values(rule.parameters))
        for rule in chosen
        if rule.name != PLAIN
    ]
    lanes = [Lane(rule, drafter) for drafter in drafters for rule in rules]
    none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in names else []
    return (*none, *lanes)


def _drafters(options: argparse.Namespace, pair: Pair) -> list[DrafterConfig]:
    kinds = [drafter_kind(name) for name in _words(options.drafter) or offered(pair)[:1]]
    tree = _tree(options.tree) if options.tree else None
    if tree and not any(kind.trees for kind in kinds):
        names = ", ".join(kind.name for kind in kinds)
        raise ValueError(f"--tree is given; drafter {names} drafts chains only.")
    mode, drafters = DraftMode(options.draft_mode), list[DrafterConfig]()
    ks = read_integers("--k", options.k) if options.k else (pair.spec.k,)
    for kind in kinds:
        shape = tree if kind.trees else None
        drafters += [
            DrafterConfig(kind.name, None, k, kind.mode(mode), shape)
            for k in (ks[:1] if shape else ks)
        ]
    return drafters


def _tree(text: str) -> TreeShape:
    parts = text.split("/")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(f"--tree is {text!r}; it takes tokens/depth/top-k, e.g. 59/8/10.")
    return TreeShape(*map(int, parts))


def read_integers(name: str, text: str, least: int = 0) -> tuple[int, ...]:
    """Whole numbers separated by commas. Raises ValueError."""
    numbers = read_numbers(name, text)
    if not all(number.is_integer() and number >= least for number in numbers):
        raise ValueError(
            f"{name} is {text!r}; it takes whole numbers from {least} on, separated by commas."
        )
    return tuple(map(int, numbers))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
