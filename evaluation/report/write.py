"""A report as files: HTML, Markdown with its charts, CSV. The only part of the report that opens files."""

from __future__ import annotations

from pathlib import Path

from evaluation.report.document.blocks import Document
from evaluation.report.document.build import document
from evaluation.report.document.render import html, markdown, svg
from evaluation.report.table_csv import write_measured_csv, write_prompts_csv, write_results_csv
from evaluation.report.texts import worst_texts
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
    return markdown(document(report, None, pictures=False))


def _write(whole: Document, path: Path) -> tuple[Path, ...]:
    """Charts that an earlier report left under the same name are removed: it may have had more of them."""
    for old in path.parent.glob(f"{path.stem}-chart-*.svg"):
        old.unlink()
    path.write_text(markdown(whole, f"{path.stem}-"), encoding="utf-8")
    pictures = {path.with_name(f"{path.stem}-{picture.name}.svg"): picture for picture in whole.pictures}
    for place, picture in pictures.items():
        place.write_text(svg(picture.drawing), encoding="utf-8")
    return path, *pictures
