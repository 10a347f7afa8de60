"""The options of ``mars eval`` and ``mars check``."""

from __future__ import annotations

from typing import Any

from evaluation.options import COMMON
from evaluation.settings import STUDY, StudySettings
from mars_core.settings import Settings
from mars_core.settings.command_line import (
    BAN_OPTION,
    MACHINE_OPTIONS,
    Commands,
    OptionTable,
    RuleValues,
    add_options,
)
from mars_core.settings.setting import options as options_of


def _text(help: str, metavar: str | None = None, default: str | None = "") -> dict[str, Any]:
    return {"help": help, "metavar": metavar, "default": default}


def _number(
    help: str, default: float | None = None, kind: type = int, metavar: str | None = None
) -> dict[str, Any]:
    return {"help": help, "default": default, "type": kind, "metavar": metavar}


def _switch(help: str) -> dict[str, Any]:
    return {"help": help, "action": "store_true"}


STORE_OPTIONS: OptionTable = {
    "--db": _text(
        "sqlite:////folder/file.db or postgresql://… (else MARS_DATABASE_URL, else the page's own "
        "database)"
    ),
}
_STUDY: OptionTable = {
    "study": {"help": "id of a study, or a unique prefix; latest: the last one planned"}
} | STORE_OPTIONS
_PROCESS: OptionTable = MACHINE_OPTIONS | {
    "--threads": _number("threads of a process (default: OMP_NUM_THREADS, else every core)"),
    "--quiet": _switch("do not print progress"),
}
_WORK: OptionTable = _PROCESS | {
    "--ray": {
        "nargs": "?",
        "const": "local",
        "metavar": "ADDRESS",
        "help": "run on a Ray cluster: a new one on this machine, or the one at this address",
    }
}
_RUNS: OptionTable = (
    options_of(Settings, *(name for name in COMMON if name not in ("structure", "prefix")))
    | BAN_OPTION
)
_PLAN: OptionTable = (
    _RUNS
    | options_of(RuleValues)
    | options_of(StudySettings)
    | {"--plan-only": _switch("store the plan, print its id and exit; resume runs it")}
)
_NOT_CHOSEN = (
    *("server", "server_model", "baseline", "baseline_model", "concurrency", "interventions"),
    *("placebos", "placebo_seeds", "sharpened", "equivalence"),
)


def _choosing(rules: str) -> OptionTable:
    """Return the options of a command that chooses the parameters of such rules itself, on models
    of this program."""
    help_text = f"rules {rules}, separated by commas (default mars); none: measure it too"
    names = [name for name in STUDY if name not in _NOT_CHOSEN]
    return _RUNS | options_of(StudySettings, *names) | {"--rules": _text(help_text, default=None)}


_ADVISE: tuple[str, OptionTable] = (
    "find the fastest setting that keeps strict's score, by a test in a fixed order",
    _choosing("with a margin threshold")
    | {
        "--alpha": _number(
            "the probability that the setting does not keep it (default 0.05)", 0.05, kind=float
        ),
        "--json": _switch("print one JSON object"),
    }
    | STORE_OPTIONS
    | _WORK,
)
_CHECK: tuple[str, OptionTable] = (
    "check whether a server with speculative decoding is lossless",
    {
        "--server": _text(
            "an OpenAI-compatible server; the key is read from MARS_SERVER_KEY", "URL"
        )
        | {"required": True},
        "--server-model": _text("name of the served model (default: the only one)", "NAME"),
        "--against": _text("a server of the same model without speculative decoding", "URL"),
        "--against-model": _text("name of its model (default: the only one)", "NAME"),
        "--reference": _text(
            "or that model itself, a folder or a GGUF file, by which this program scores every "
            "token of the server",
            "MODEL",
        ),
        "--in-flight": _number("requests at once (default 8)", 8),
        "--minutes": _number("repeat the prompts of temperature 0 for so long", 0, kind=float),
        "--draws": _number(
            "answers per prompt and server at temperature 1 (default 100 short ones; 20 of up to "
            "32 tokens with --reference)"
        ),
        "--repeats": _number(
            "answers at temperature 1 after each of four beginnings, whose first tokens are tested "
            "together (default 250)",
            250,
        ),
        "--seed": _number("seed of the first of them (default 0)", 0),
        "--prompts": _text("one prompt per line (default: ten of this program)", "FILE"),
        "--json": _text("write the verdicts as JSON too", "FILE"),
    },
)
_COMMANDS: dict[str, tuple[str, OptionTable]] = {
    "run": (
        "plan a study and run it",
        {
            "--plan": _text(
                "run the plan of a report's folder instead, with its prompts, rules and seeds; "
                "other options but those of the machine are ignored",
                "FILE",
            )
        }
        | _PLAN
        | STORE_OPTIONS
        | _WORK,
    ),
    "match": (
        "compare rules at equal τ, or equal speed-up over none",
        _choosing("with a margin threshold, ensemble or random")
        | {
            "--tau": _number("the mean acceptance length that each rule is set to", kind=float),
            "--speed": _number("or the speed-up over none, which is measured too", kind=float),
        }
        | STORE_OPTIONS
        | _WORK,
    ),
    "resume": (
        "continue a study",
        _STUDY | _WORK | {"--failed": _switch("run the tasks with failed lanes again")},
    ),
    "list": ("list the studies in the database, latest first", STORE_OPTIONS),
    "report": (
        "report a study, to the terminal or as files",
        _STUDY
        | {
            "--markdown": _text(
                "write Markdown, with its figures in an HTML file beside it", "FILE"
            ),
            "--folder": _text("write HTML, Markdown and CSV into a folder", "FOLDER"),
        },
    ),
    "export": (
        "write answers in the format of Spec-Bench, as JSON lines",
        _STUDY | {"--folder": {"metavar": "FOLDER", "required": True}},
    ),
    "judge": (
        "judge pairs of answers by a language model with an OpenAI-compatible endpoint",
        _STUDY
        | {
            "--url": _text("base URL of the endpoint (else MARS_JUDGE_URL)"),
            "--model": _text(
                "model name of the judge (else MARS_JUDGE_MODEL); the key is read from "
                "MARS_JUDGE_KEY"
            ),
            "--limit": _number("maximum number of answer pairs"),
        },
    ),
    "follow": (
        "what follows the relaxed tokens of a study, and what would have if they had been rejected",
        _STUDY
        | _PROCESS
        | {
            "--sample": _number("of each run N random relaxed tokens (default: all)", metavar="N"),
            "--batch": _text(
                "continuations to decode together (default auto)", "auto|N", default="auto"
            ),
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


def _add(commands: Commands, name: str, summary: str, options: OptionTable) -> None:
    description = summary[0].upper() + summary[1:] + "."
    add_options(commands.add_parser(name, help=summary, description=description), options)
