"""What is done with the results of studies: ``mars eval list | report | export | judge | follow |
delete``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from display.format import shorten
from mars_playground.output import note, write
from storage import RunStore

if TYPE_CHECKING:
    from evaluation.study.follow import FollowProgress


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


def _follow(options: Namespace, store: RunStore) -> int:
    """Follow the relaxed tokens of a study. Exit status 1 where a continuation failed."""
    from evaluation.study.batch import batch_of
    from evaluation.study.check import check_models, longest
    from evaluation.study.follow import follow_tokens, followed_plan
    from evaluation.study.launch import open_session

    if options.sample is not None and options.sample < 1:
        raise ValueError(f"--sample is {options.sample}; it must be 1 or more.")
    study_id = find_study(store, options.study)
    plan = followed_plan(store, study_id)
    session = open_session(options, plan.models.spec())
    check_models(plan, session.pair)
    batch = batch_of(options.batch, session.pair, longest(plan, session))
    progress = follow_tokens(store, study_id, session, batch, options.sample)
    return followed(progress, "relaxed tokens were followed", quiet=options.quiet)


def followed(tokens: Iterable[FollowProgress], what: str, *, quiet: bool) -> int:
    """Show the progress; return 1 where a continuation failed."""
    from evaluation.progress import progress_bar

    with progress_bar(0, "runs", disable=quiet) as bar:
        for progress in tokens:
            bar.total = progress.runs
            bar.update(progress.done - bar.n)
    note(f"{progress.tokens:,} {what}; {progress.failed:,} failed.")
    return 1 if progress.failed else 0


def _delete(options: Namespace, store: RunStore) -> int:
    store.delete_study(find_study(store, options.study))
    return 0


COMMANDS: dict[str, Callable[[Namespace, RunStore], int]] = {
    "list": _list,
    "report": _report,
    "export": _export,
    "judge": _judge,
    "follow": _follow,
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
