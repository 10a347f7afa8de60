"""The command ``mars``: the command lines of the packages under one name, and their shell
completion.

``mars run`` is ``python -m mars_core run``, ``mars eval`` is ``python -m evaluation``, ``mars
check`` and ``mars import`` are ``python -m evaluation check`` and ``import``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

# The module that a command's main is in: only the packages that it needs are imported.
CORE, STORAGE = "mars_core.__main__", "storage.__main__"
MAINS = dict.fromkeys(("run", "compare", "models", "fetch", "rules"), CORE) | {
    "columns": STORAGE,
    "check": "evaluation.cli",
    "import": "evaluation.cli",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. The exit status is that of the package's own command line; 2 for an unknown
    command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["eval"]:
        return int(import_module("evaluation.cli").main(given[1:], prog="mars eval"))
    if given and given[0] in MAINS:
        return int(import_module(MAINS[given[0]]).main(given, prog="mars"))
    parser().parse_args(given)  # prints the help, the completion script or an error, and exits
    return 2


def parser() -> argparse.ArgumentParser:
    """Every command with its options, for the help and the shell completion."""
    import shtab

    root = argparse.ArgumentParser(
        prog="mars", description="Strict and margin-aware speculative decoding."
    )
    shtab.add_argument_to(root, help="print the completion script of a shell")
    commands = root.add_subparsers(dest="command", required=True)
    import_module("mars_core.arguments").add_commands(commands)
    import_module("storage.__main__").add_commands(commands)
    import_module("evaluation.arguments").add_command(commands, "check")
    studies = commands.add_parser(
        "eval", help="paired studies of verification rules on suites of prompts"
    )
    import_module("evaluation.arguments").add_commands(
        studies.add_subparsers(dest="study_command", required=True)
    )
    return root


if __name__ == "__main__":
    raise SystemExit(main())
