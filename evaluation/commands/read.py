"""The commands that read the store: which studies there are, what they say, in which files. They load no model."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from evaluation.commands.say import line, say, tell
from storage import RunStore


def open_store(url: str | None) -> RunStore:
    """The database that was named, else that of the environment, else the page's own. Raises StorageError."""
    return RunStore(url or os.environ.get("MARS_DATABASE_URL") or None)


def list_studies(options: Namespace) -> int:
    """The studies of the database, latest first."""
    with open_store(options.db) as store:
        for study in store.studies():
            say(
                f"{study.id}  {study.created_at:%Y-%m-%d %H:%M} UTC  {study.done:,}/{study.tasks:,} tasks  {line(study.name)}"
            )
    return 0


def report(options: Namespace) -> int:
    """What a study says."""
    from evaluation.report.measure import measure
    from evaluation.report.write import markdown_of, write_markdown, write_report

    with open_store(options.db) as store:
        found = measure(store, find(store, options.study))
        if options.markdown:
            for path in write_markdown(found, Path(options.markdown), store):
                tell(str(path))
        if options.folder:
            for path in write_report(store, found, Path(options.folder)):
                tell(str(path))
        if not options.markdown and not options.folder:
            say(markdown_of(found))
    return 0


def export(options: Namespace) -> int:
    """Answers in the shapes that other tools read."""
    from evaluation.report.shapes import write_answers, write_lm_eval

    with open_store(options.db) as store:
        study_id, folder = find(store, options.study), Path(options.folder)
        for path in (*write_lm_eval(store, study_id, folder), *write_answers(store, study_id, folder)):
            tell(str(path))
    return 0


def judge(options: Namespace) -> int:
    """Ask a language model about pairs of answers; without a key nothing is asked."""
    from evaluation.judge.endpoint import KEY, Endpoint, JudgeError, read_settings
    from evaluation.judge.study import judge_study

    settings = read_settings(os.environ, url=options.url, model=options.model)
    if settings is None:
        raise ValueError(f"{KEY} is not set; nothing is judged without the key of an endpoint.")
    with open_store(options.db) as store, Endpoint(settings) as endpoint:
        study_id = find(store, options.study)
        try:
            for progress in judge_study(store, study_id, endpoint, limit=options.limit):
                answered = f"{progress.judged:,} of {progress.total:,} questions answered"
                tell(f"{answered}, {progress.unclear:,} unclear, {progress.failed:,} failed")
        except JudgeError as error:
            tell(str(error))
            return 1
    return 0


def delete(options: Namespace) -> int:
    """Remove a study."""
    with open_store(options.db) as store:
        store.delete_study(find(store, options.study))
    return 0


def find(store: RunStore, said: str) -> str:
    """The id of the study that was meant. Raises ValueError where none or several are."""
    studies = store.studies(limit=10_000)
    if said == "latest" and studies:
        return studies[0].id
    found = [study.id for study in studies if study.id.startswith(said)] if said else []
    if len(found) != 1:
        raise ValueError(
            f"The study is {said[:64]!r}, and {len(found)} studies of this database begin so; name exactly one."
        )
    return found[0]
