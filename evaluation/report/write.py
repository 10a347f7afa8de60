"""A report as files: HTML, Markdown with its charts, CSV. The only part of the report that opens files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from evaluation.report.form.blocks import Document, Picture
from evaluation.report.form.document import document
from evaluation.report.form.html import html
from evaluation.report.form.markdown import markdown
from evaluation.report.form.texts import worst_texts
from evaluation.report.table_csv import write_measured_csv, write_prompts_csv, write_results_csv
from evaluation.report.values import Report
from storage import RunStore


def write_report(store: RunStore, report: Report, folder: Path) -> tuple[Path, ...]:
    """``report.html``, ``report.md`` with its charts, ``results.csv``, ``measured.csv`` and ``prompts.csv``; their paths.

    Raises OSError where they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = document(report, worst_texts(store, report))
    page = folder / "report.html"
    page.write_text(html(whole), encoding="utf-8")
    tables = [folder / name for name in ("results.csv", "measured.csv", "prompts.csv")]
    with tables[0].open("w", encoding="utf-8", newline="") as stream:
        write_results_csv(store, report.id, stream)
    for path, write in zip(tables[1:], (write_measured_csv, write_prompts_csv), strict=True):
        with path.open("w", encoding="utf-8", newline="") as stream:
            write(report, stream)
    return page, *_write(whole, folder / "report.md"), *tables


def write_markdown(report: Report, path: Path, store: RunStore | None = None) -> tuple[Path, ...]:
    """Markdown, its charts beside it as ``<stem>-chart-….svg``; their paths. With a store the worst prompts have their texts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _write(document(report, worst_texts(store, report) if store else None), path)


def markdown_of(report: Report) -> str:
    """Markdown alone, without texts and charts, for a terminal."""
    return markdown(_without_pictures(document(report, None)))


def _write(whole: Document, path: Path) -> tuple[Path, ...]:
    """Charts that an earlier report left under the same name are removed: it may have had more of them."""
    for old in path.parent.glob(f"{path.stem}-chart-*.svg"):
        old.unlink()
    pictures = [path.with_name(f"{path.stem}-{picture.name}.svg") for picture in _pictures(whole)]
    for picture, place in zip(_pictures(whole), pictures, strict=True):
        place.write_text(picture.svg, encoding="utf-8")
    path.write_text(markdown(whole, f"{path.stem}-"), encoding="utf-8")
    return path, *pictures


def _pictures(whole: Document) -> Iterator[Picture]:
    return (block for section in whole.sections for block in section.blocks if isinstance(block, Picture))


def _without_pictures(whole: Document) -> Document:
    sections = (
        replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, Picture)))
        for section in whole.sections
    )
    return replace(whole, sections=tuple(section for section in sections if section.blocks))
