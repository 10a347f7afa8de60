"""What is done with the results of studies: ``mars eval list | report | export | judge |
delete``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from display.format import shorten
from mars_playground.output import note, write
from storage import RunStore


def _list(_: Namespace, store: RunStore) -> int:
    for study in store.studies():
        done = f"{study.done:,}/{study.tasks:,} tasks"
        write(
            f"{study.id}  {study.created_at:%Y-%m-%d %H:%M} UTC  {done}  {shorten(study.name, 80)}"
        )
    return 0


def _report(options: Namespace, store: RunStore) -> int:
    from evaluation.report.files import markdown_of, write_markdown, write_report
    from evaluation.report.measure import measure

    report = measure(store, find_study(store, options.study))
    if options.markdown:
        note(*write_markdown(report, Path(options.markdown), store))
    if options.folder:
        note(*write_report(store, report, Path(options.folder)))
    if not options.markdown and not options.folder:
        write(markdown_of(report))
    return 0


def _export(options: Namespace, store: RunStore) -> int:
    from evaluation.report.shapes import write_answers

    note(*write_answers(store, find_study(store, options.study), Path(options.folder)))
    return 0


def _judge(options: Namespace, store: RunStore) -> int:
    """Judge pairs of answers by a language model. Exit status 1 where a question failed. Raises
    ValueError without a key."""
    from evaluation.judge.study import KEY, Endpoint, judge_study, read_judge

    judge = read_judge(os.environ, url=options.url, model=options.model)
    if judge is None:
        raise ValueError(f"{KEY} is not set; it must be the key of the judge's endpoint.")
    if options.limit is not None and options.limit < 1:
        raise ValueError(f"--limit is {options.limit}; it must be 1 or more.")
    with Endpoint(judge) as endpoint:
        for progress in judge_study(
            store, find_study(store, options.study), endpoint, limit=options.limit
        ):
            answered = f"{progress.judged:,} of {progress.total:,} questions answered"
            note(f"{answered}, {progress.unclear:,} unclear, {progress.failed:,} failed")
    return 1 if progress.failed else 0


def _delete(options: Namespace, store: RunStore) -> int:
    store.delete_study(find_study(store, options.study))
    return 0


COMMANDS: dict[str, Callable[[Namespace, RunStore], int]] = {
    "list": _list,
    "report": _report,
    "export": _export,
    "judge": _judge,
    "delete": _delete,
}


def find_study(store: RunStore, name: str) -> str:
    """Return the id of the study ``name``: ``latest``, an id, or a unique prefix of one. Raises
    ValueError for none or several matches."""
    studies = store.studies(limit=10_000)
    if name == "latest" and studies:
        return studies[0].id
    matches = [study.id for study in studies if name and study.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    raise ValueError(
        f"The study is {name[:64]!r}, and {len(matches)} studies in this database match; name "
        "exactly one."
    )
