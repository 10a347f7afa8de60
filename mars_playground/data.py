"""``mars import FILE…`` adds the runs of another instance, or records of servers, to a database;
``mars columns`` lists the columns of the exports."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from evaluation.arguments import STORE_OPTIONS
from mars_core.arguments import Commands, add_options


def add_commands(commands: Commands) -> None:
    commands.add_parser("columns", help="the columns of the exports, as Markdown")
    command = commands.add_parser(
        "import", help="add the runs of another instance, or records of servers"
    )
    command.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="runs, tokens and nodes as Parquet, the ZIP of your data, lines of mars-vllm, saved answers, /metrics",
    )
    add_options(command, STORE_OPTIONS)
    command.add_argument("--owner", help="owner of the imported runs (default: everybody)")


def main(options: Namespace) -> int:
    """Exit status 2 if a file could not be imported; runs imported before remain."""
    if options.command == "columns":
        from storage.export.columns import described

        sys.stdout.write(described())
        return 0
    from evaluation.records.read import read_records
    from storage import RunStore, StorageError
    from storage.importing import import_files

    try:
        with RunStore(options.db or os.environ.get("MARS_DATABASE_URL") or None) as store:
            done = import_files(store.of(options.owner), options.files, read_records)
    except (StorageError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{done.runs:,} runs imported; {done.known:,} were already stored.\n")
    return 0
