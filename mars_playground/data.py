"""``mars import FILE…`` adds records of servers to a database; ``mars columns`` lists the columns of
the exports."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from evaluation.arguments import STORE_OPTIONS
from mars_core.settings.command_line import Commands, add_options


def add_commands(commands: Commands) -> None:
    commands.add_parser("columns", help="the columns of the exports, as Markdown")
    command = commands.add_parser("import", help="add records of servers")
    command.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="lines of mars-vllm, saved answers, /metrics",
    )
    add_options(command, STORE_OPTIONS)
    command.add_argument("--owner", help="owner of the imported runs (default: everybody)")


def main(options: Namespace) -> int:
    """Exit status 2, and nothing is imported, if a file cannot be read."""
    if options.command == "columns":
        from storage.export.columns import described

        sys.stdout.write(described())
        return 0
    from evaluation.records.read import read_records
    from storage import RunStore, StorageError
    from storage.importing import import_runs

    try:
        with RunStore(options.db or os.environ.get("MARS_DATABASE_URL") or None) as store:
            owned = store.of(options.owner)
            runs = [run for path in options.files for run in read_records(path)]
            added = import_runs(owned, runs)
    except (StorageError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{added:,} runs imported; {len(runs) - added:,} were already stored.\n")
    return 0
