"""``python -m storage import FILE…`` adds the runs of another instance to a database; ``columns``
lists the columns of the exports."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.export.columns import described
from storage.importing import Record, import_files
from storage.store import RunStore

if TYPE_CHECKING:
    from mars_core.arguments import Commands


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
        help="runs, tokens and nodes as Parquet, the ZIP of your data; mars import reads lines of mars-vllm, saved answers and /metrics",
    )
    command.add_argument(
        "--database",
        default=os.environ.get("MARS_DATABASE_URL"),
        help="database URL (default: MARS_DATABASE_URL, else this user's database)",
    )
    command.add_argument("--owner", help="owner of the imported runs (default: everybody)")


def main(
    arguments: Sequence[str] | None = None,
    prog: str = "python -m storage",
    read: Callable[[Path], Sequence[Record]] | None = None,
) -> int:
    """Exit status 2 if a file could not be imported; runs imported before are kept. ``read``: reads
    files that are not exports."""
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    add_commands(parser.add_subparsers(required=True, dest="command"))
    options = parser.parse_args(arguments)
    if options.command == "columns":
        sys.stdout.write(described())
        return 0
    try:
        with RunStore(options.database) as store:
            done = import_files(store.of(options.owner), options.files, read)
    except (StorageError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{done.runs:,} runs imported; {done.known:,} were already stored.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
