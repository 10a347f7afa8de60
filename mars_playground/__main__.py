"""The command ``mars``: every command of this program in one tree, with its shell completion.

``python -m mars_playground`` is the same, for launchers. A command's module is imported when it
runs, so that help and completion need no libraries that take seconds to import. Exit status 2 for
bad input, 1 where something failed, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evaluation import arguments as studies
from mars_core.lazy import imported
from mars_core.settings import command_line as decoding
from mars_playground import data


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:2] == ["eval", "lm_eval"]:  # lm-eval reads its options
        from evaluation.harness.command import main as lm_eval

        return lm_eval(words[2:])
    options = parser().parse_args(words)
    try:
        return int(imported(f"mars_playground.{options.module}").main(options))
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130


def parser() -> argparse.ArgumentParser:
    """Return every command with its options, and ``module``: the one of this package that runs it."""
    import shtab

    root = argparse.ArgumentParser(
        prog="mars", description="Strict and margin-aware speculative decoding."
    )
    shtab.add_argument_to(root, help="print the completion script of a shell")
    commands = root.add_subparsers(dest="command", required=True)
    for module, add in (
        ("decoding", decoding.add_commands),
        ("listing", decoding.add_lists),
        ("data", data.add_commands),
        ("studies", studies.add_check),
    ):
        before = set(commands.choices)
        add(commands)
        for name in set(commands.choices) - before:
            commands.choices[name].set_defaults(module=module)
    summary = "paired studies of verification rules on suites of prompts"
    suites = commands.add_parser("eval", help=summary, description=f"{summary.capitalize()}.")
    suites.set_defaults(module="studies")
    studies.add_commands(suites.add_subparsers(dest="command", required=True))
    return root


if __name__ == "__main__":
    sys.exit(main())
