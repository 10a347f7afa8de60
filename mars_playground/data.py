"""``mars import FILE…`` adds records of servers to a database, ``mars export`` and ``mars publish`` write
what it has, ``mars columns`` lists the columns of the exports."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.arguments import STORE_OPTIONS
from mars_core.settings.command_line import Commands, add_options
from mars_core.types import Status

if TYPE_CHECKING:
    from storage import RunStore


_EXPORTS = ("runs", "tokens", "nodes", "counterfactuals", "votes")
_FILTERS = {
    "--text": "only comparisons with this text in prompt, name, comment or a tag",
    "--rule": "only comparisons with a run of this rule",
    "--target": "only comparisons with a run of this target",
    "--tag": "only comparisons with this tag",
}


def add_commands(commands: Commands) -> None:
    commands.add_parser("columns", help="the columns of the exports, as Markdown")
    command = commands.add_parser("import", help="add records of servers")
    command.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="lines of mars-vllm, saved answers",
    )
    add_options(command, STORE_OPTIONS)
    command.add_argument("--owner", help="owner of the imported runs (default: everybody)")
    command = commands.add_parser("export", help="write runs, tokens, nodes or votes of the log")
    command.add_argument("table", choices=_EXPORTS, help="one row per run, token, node, …")
    command.add_argument(
        "file", type=_table_file, metavar="FILE", help="FILE.csv or FILE.parquet; it is replaced"
    )
    _add_filters(command)
    command = commands.add_parser(
        "publish", help="write studies and chosen comparisons as a site of files"
    )
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a new folder, or a site written before"
    )
    command.add_argument("--title", default="MARS Playground: results", help="of the site")
    command.add_argument(
        "--studies",
        default="all",
        metavar="IDS",
        help="ids of studies, by commas; none; default: all that are finished",
    )
    command.add_argument("--space", metavar="OWNER/NAME", help="a static Space that gets the site")
    _add_filters(command)


def _add_filters(command: ArgumentParser) -> None:
    """Add those of comparisons, and the database."""
    for name, text in _FILTERS.items():
        command.add_argument(name, default="", metavar=name[2:].upper(), help=text)
    command.add_argument(
        "--status", type=Status, choices=[*Status], help="only comparisons with such a run"
    )
    for name, text in (("--since", "from this time on"), ("--until", "before this time")):
        command.add_argument(
            name, type=_time, metavar="TIME", help=f"only comparisons {text}, ISO 8601, in UTC"
        )
    add_options(command, STORE_OPTIONS)
    command.add_argument("--owner", help="only comparisons of this owner (default: of everybody)")


def _table_file(text: str) -> Path:
    if (path := Path(text)).suffix not in (".csv", ".parquet"):
        raise ArgumentTypeError(f"The file must end in .csv or .parquet, not {text[-80:]!r}.")
    return path


def _time(text: str) -> datetime:
    """Read a time; one without a zone is in UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"The time must be as in 2026-11-29 or 2026-11-29T08:00, not {text[:80]!r}."
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def main(options: Namespace) -> int:
    """Exit status 2, and nothing is imported, if a file cannot be read."""
    if options.command == "columns":
        from storage.export.columns import described

        sys.stdout.write(described())
        return 0
    from storage import RunStore, StorageError

    work = {"import": _import, "export": _export, "publish": _publish}[options.command]
    try:
        with RunStore(options.db or os.environ.get("MARS_DATABASE_URL") or None) as store:
            said = work(store.of(options.owner), options)
    except (OSError, StorageError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{said}\n")
    return 0


def _import(store: RunStore, options: Namespace) -> str:
    from evaluation.records.read import read_records
    from storage.importing import import_runs

    try:
        runs = [run for path in options.files for run in read_records(path)]
    except ValueError as error:
        raise ValueError(f"Nothing was imported: {error}") from None
    added = import_runs(store, runs)
    return f"{added:,} runs imported; {len(runs) - added:,} were already stored."


def _export(store: RunStore, options: Namespace) -> str:
    from storage.export import write_csv, write_parquet

    ids = _filtered(store, options)
    write = write_csv if options.file.suffix == ".csv" else write_parquet
    write(options.table, store, options.file, ids)
    found = store.count() if ids is None else len(ids)
    return f"The {options.table} of {found:,} comparisons are in {options.file}."


def _publish(store: RunStore, options: Namespace) -> str:
    from display.format import plural
    from evaluation.progress import show_progress
    from mars_playground.publishing import INDEX, publish, upload

    finished = [each.id for each in store.studies(limit=10_000) if each.done == each.tasks]
    wanted = finished if options.studies == "all" else options.studies.split(",")
    studies = [] if options.studies == "none" else wanted
    comparisons = _filtered(store, options) or []
    publish(store, options.folder, options.title, studies, comparisons, show_progress)
    amounts = f"{plural(len(studies), 'study')} and {plural(len(comparisons), 'comparison')}"
    said = f"{amounts}: {options.folder / INDEX}"
    if options.space:
        return f"{said}, and at {upload(options.folder, options.space)}."
    return f"{said}."


def _filtered(store: RunStore, options: Namespace) -> list[str] | None:
    """Return the comparisons that match the filters, newest first; None without one."""
    from storage import Search

    names = ("status", "since", "until", *(name[2:] for name in _FILTERS))
    criteria = {name: getattr(options, name) for name in names}
    if not any(criteria.values()):
        return None
    return store.matching_ids(Search(**criteria, limit=sys.maxsize >> 1))
