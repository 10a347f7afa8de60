"""``mars publish``: studies and chosen comparisons as a site of files, which needs no server
and no Python: for a Space of the kind static, GitHub Pages, or a folder on a disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from display.blocks import Head, ReportDocument, ReportTable, Section, TableCell
from display.format import count, displayable, shorten
from display.render import html
from evaluation.report.document.verdicts import main_group, verdict_of
from evaluation.report.files import write_report
from evaluation.report.measure import measure
from storage import RunStore
from storage.runs.records import rule_label
from ui.report.page import report_html
from ui.result.result import title_of

MOST = 500  # comparisons of a site
INDEX = "index.html"
_CONTENTS = "published.json"  # marks a folder that may be replaced
_NOTE = (
    "Written by MARS Playground (mars publish). Every number is in the files beside the reports."
)


def publish(
    store: RunStore,
    folder: Path,
    title: str,
    studies: Sequence[str],
    comparisons: Sequence[str],
    progress: Callable[[str], None],
) -> None:
    """Write the site, whole or not at all. Raises ValueError for nothing or too much to publish, and
    for a folder with something else in it, OSError where it cannot be written."""
    if not studies and not comparisons:
        raise ValueError(
            "There is nothing to publish: no finished study is in the database, and no filter "
            "(--tag, --text, …) chooses comparisons."
        )
    if len(comparisons) > MOST:
        raise ValueError(
            f"The filters choose {count(len(comparisons))} comparisons; a site has at most {MOST}."
        )
    foreign = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if foreign and not (folder / _CONTENTS).is_file():
        raise ValueError(
            f"FOLDER is {str(folder)!r}; it must be new, empty or a site written before."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        site = Path(temporary) / "site"
        site.mkdir()
        sections = (
            _table("Studies", _STUDY, list(_studies(store, site, studies, progress))),
            _table(
                "Comparisons", _COMPARISON, list(_comparisons(store, site, comparisons, progress))
            ),
        )
        document = ReportDocument(title, (_NOTE,), tuple(filter(None, sections)))
        (site / INDEX).write_text(html(document), encoding="utf-8")
        (site / "README.md").write_text(_card(title), encoding="utf-8")
        contents = {"title": title, "studies": [*studies], "comparisons": [*comparisons]}
        (site / _CONTENTS).write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
        if folder.exists():
            folder.rename(Path(temporary) / "before")
        shutil.move(site, folder)


_STUDY = (Head("Study"), Head("Verdict"), Head("Tasks"), Head("Date"))
_COMPARISON = (Head("Prompt"), Head("Target"), Head("Rules"), Head("Date"))


def _table(title: str, heads: Sequence[Head], rows: list[tuple[TableCell, ...]]) -> Section | None:
    table = ReportTable(title, tuple(heads), tuple(rows))
    return Section(title.lower(), title, (table,)) if rows else None


def _studies(
    store: RunStore, site: Path, ids: Sequence[str], progress: Callable[[str], None]
) -> Iterator[tuple[TableCell, ...]]:
    for number, study_id in enumerate(ids, 1):
        progress(f"Measuring study {number} of {len(ids)}")
        report, study = measure(store, study_id), store.study(study_id)
        write_report(store, report, site / "studies" / study_id)
        link = f"studies/{study_id}/report.html"
        yield (
            TableCell(displayable(study.name) or study_id, link=link),
            TableCell(verdict_of(report, main_group(report)).text),
            TableCell(count(study.done)),
            TableCell(f"{study.created_at:%Y-%m-%d}"),
        )


def _comparisons(
    store: RunStore, site: Path, ids: Sequence[str], progress: Callable[[str], None]
) -> Iterator[tuple[TableCell, ...]]:
    for number, comparison_id in enumerate(ids, 1):
        progress(f"Writing comparison {number} of {len(ids)}")
        stored = store.load(comparison_id)
        configs = [run.trace.config for run in stored.runs]
        file = site / "comparisons" / f"{comparison_id}.html"
        file.parent.mkdir(exist_ok=True)
        file.write_text(report_html(stored), encoding="utf-8")
        yield (
            TableCell(title_of(stored), link=f"comparisons/{file.name}"),
            TableCell(_distinct(each.target.name for each in configs)),
            TableCell(
                _distinct(rule_label(each.rule.name, each.rule.parameters) for each in configs)
            ),
            TableCell(f"{stored.created_at:%Y-%m-%d}"),
        )


def _distinct(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(map(displayable, names)))


def _card(title: str) -> str:
    """Return the README of a Space of the kind static."""
    name = json.dumps(shorten(title, 60))
    return f"---\ntitle: {name}\nsdk: static\napp_file: {INDEX}\n---\n\n{_NOTE}\n"


def upload(folder: Path, space: str) -> str:
    """Make the static Space ``owner/name`` have exactly the files of ``folder``; return its address.
    Raises ValueError where the Hub refuses, OSError without a connection."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    api = HfApi()
    try:
        made = api.create_repo(space, repo_type="space", space_sdk="static", exist_ok=True)
        api.upload_folder(
            repo_id=space,
            repo_type="space",
            folder_path=folder,
            delete_patterns="*",
            commit_message="Published results",
        )
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError) as error:
        reason = shorten(" ".join(str(error).split()), 200)
        raise ValueError(f"The site is in {folder}, but {space} has not got it: {reason}") from None
    return str(made)
