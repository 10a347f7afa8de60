"""HTML, Markdown and charts of a report: what must stand in them, and that no text becomes
markup."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from display.blocks import ReportDocument, ReportTable
from display.render import escaped, html, markdown
from evaluation.plan.lane import with_placebos
from evaluation.recovery import RecoveryOutcome
from evaluation.report.document.build import document
from evaluation.report.document.prompts import GONE, Texts
from evaluation.report.document.verdicts import prompts_needed
from evaluation.report.measured import Measured
from evaluation.report.values import Report
from tests.panels import read_panel
from tests.reports import HOSTILE, bare, make_report

ROOT = Path(__file__).parents[4]
TEMPLATES = "".join(
    path.read_text("utf-8") for path in (ROOT / "display/templates").glob("*.jinja")
)


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report()


@pytest.fixture(scope="module")
def full_document(report: Report) -> ReportDocument:
    texts = {
        row.worst: Texts(f"same {HOSTILE}", f"same {HOSTILE}, other ``` </pre>")
        for row in report.prompts[:3]
    }
    return document(report, texts)


def _tables(full_document: ReportDocument) -> list[ReportTable]:
    return [
        block
        for section in full_document.sections
        for block in section.blocks
        if isinstance(block, ReportTable)
    ]


def test_html_holds_no_element_of_a_text_and_fetches_nothing(full_document: ReportDocument) -> None:
    page = html(full_document)
    page.encode("utf-8")
    elements = read_panel(page)
    names = {(name, value) for each in elements.every for name, value in each.attributes.items()}
    assert {each.tag for each in elements.every} - {""} <= set(
        re.findall("<([a-z0-9]+)", TEMPLATES)
    )
    assert not any(name.startswith("on") for name, _ in names)
    assert all(value.startswith("#") for name, value in names if name in ("href", "src"))
    (policy,) = (value for _, value in names if value.startswith("default-src 'none'"))
    assert set(re.findall(r"script-src ([^;]+)", policy)[0].split()) == _hashes(page)
    assert page.count("</script>") == page.count("<script") == 3  # values, Plotly, its own
    assert "<script>alert(1)</script>" in elements.text  # as text
    assert not set(page) & set("\u202e\x00\ud800")


def _hashes(page: str) -> set[str]:
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    return {f"'sha256-{each}'" for each in digests}


def test_a_file_without_figures_carries_no_plotly(report: Report) -> None:
    assert len(html(document(bare(report), {}))) < 500_000 < len(html(document(report, {})))


def test_markdown_shows_hostile_texts_as_text(full_document: ReportDocument) -> None:
    text = markdown(full_document, "report.html")
    text.encode("utf-8")
    tokens = [
        token
        for one in MarkdownIt("gfm-like", {"linkify": False}).parse(text)
        for token in (one, *(one.children or []))
    ]
    assert not [
        token
        for token in tokens
        if token.type in ("html_block", "html_inline", "image", "em_open", "code_inline", "s_open")
    ]
    assert all(
        token.attrGet("href").startswith("report.html#chart-")
        for token in tokens
        if token.type == "link_open"
    )
    visible = "".join(token.content for token in tokens if token.type in ("text", "fence"))
    assert "</td><script>alert(1)</script> | `x` **b** [a](javascript:alert(2))" in visible


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "# a",
        "1. a",
        "12) a",
        "- a",
        "---",
        "===",
        "+ a",
        "> a",
        "a_b_ *c* ~~d~~ $e$ \\",
        "&amp; <b>",
        "![x](y)",
    ],
)
def test_escaped_text_reads_as_it_was(text: str) -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(escaped(text))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children).startswith(text.split("\u202e")[0].strip())


def test_every_table_row_has_a_cell_for_every_head(full_document: ReportDocument) -> None:
    assert all(
        len(row) == len(table.heads) for table in _tables(full_document) for row in table.rows
    )
    lines = markdown(full_document).splitlines()
    for at, line in enumerate(lines):
        if line.startswith("|---"):
            assert lines[at - 1].count(" | ") == len(line.split("|")) - 3


def test_the_verdict_comes_first_and_the_worst_before_the_rest(report: Report) -> None:
    """Also where a rule with a high recovery, of few prompts, is not supported."""
    rows = [
        row
        for row in report.measured
        if row.group in report.suite_groups and row.main_score and row.main_score.verdict
    ]
    best = max(rows, key=lambda row: row.main_score.recovery.value)  # type: ignore[union-attr]
    (name, score), *rest = best.scores.items()
    assert score.verdict is not None
    failed = replace(score, verdict=RecoveryOutcome.NOT_SUPPORTED)
    changed = replace(best, scores={name: failed, **dict(rest)})
    report = replace(
        report, measured=tuple(changed if row is best else row for row in report.measured)
    )
    full_document = document(report, {})
    assert [section.name for section in full_document.sections][:4] == [
        *("kept", "verdict", "warnings", "table"),
    ]
    costs, table, *_ = _tables(full_document)
    rule, *_ = (row for row in costs.rows if row[0].text == "MARS θ = 0.84")
    heads = [f"{head.group} {head.text}".strip() for head in costs.heads]
    assert {"Score", "Per right answer tokens", "Without answer", "Loops left"} <= {*heads}
    assert len(costs.rows) == 66 and all(cell.small.startswith("[") for cell in rule[5:])
    rank = {"not supported": 0, "too few prompts": 1, "supported": 2}
    ranks = [rank[row[4].text[2:]] for row in table.rows]
    assert ranks == sorted(ranks)
    assert len(table.rows) == 48  # 8 rules beside 2 strict × 2 suites and all × 2 temperatures
    text = read_panel(html(full_document)).text
    assert all(warning in text for warning in report.warnings)


def test_the_number_that_verdicts_take_is_the_same_before_and_after_the_start(
    report: Report,
) -> None:
    """Whatever was measured, and only where something is not decided."""
    sentence = prompts_needed(report.plan)
    assert sentence == (
        "Recovery ≥ 98 % takes 189 prompts that strict answers right if none is lost, about 1,960 "
        "if one in ten answers differs."
    )
    page = " ".join(read_panel(html(document(report, {}))).text.split())
    assert page.count("takes") == 1 and sentence in page

    def supported(row: Measured) -> Measured:
        verdict = RecoveryOutcome.SUPPORTED
        scores = {
            name: replace(each, verdict=each.verdict and verdict)
            for name, each in row.scores.items()
        }
        return replace(row, scores=scores)

    decided = replace(report, measured=tuple(map(supported, report.measured)))
    assert sentence not in html(document(decided, {}))
    lanes = with_placebos(report.plan.lanes)
    assert prompts_needed(replace(report.plan, lanes=lanes, margin=0.95)) == (
        "Recovery ≥ 95 % takes 73 prompts that strict answers right if none is lost, about 310 if "
        "one in ten answers differs; equivalence to random within ± 5 % in 56 comparisons 221 and "
        "850."
    )
    assert "by any number" in prompts_needed(replace(report.plan, margin=1))


def test_every_measured_number_has_its_interval_and_its_amount(
    full_document: ReportDocument, report: Report
) -> None:
    speed = next(section for section in full_document.sections if section.name == "speed").blocks[0]
    assert isinstance(speed, ReportTable)
    heads = [f"{head.group} {head.text}".strip() for head in speed.heads]
    assert (
        "Speed-up over none ratio of means" in heads
        and "Speed-up over none mean of ratios" in heads
    )
    row = dict(zip(heads, speed.rows[2], strict=True))
    first = report.measured[2]
    assert row["n"].text == f"{first.prompts} × {first.seeds}"
    assert row["τ"].small.startswith("[") and row["Speed-up over strict mean of ratios"].small
    assert len(speed.rows) == len(report.measured)


def test_what_is_missing_is_said(full_document: ReportDocument, report: Report) -> None:
    """Failed runs, tasks that are not done, everything."""
    assert "1 failed" in markdown(full_document)
    assert "Measured on less: MARS θ = 0.9 (draft model, K = 5) on sums" in html(full_document)
    first = document(replace(report, tasks_done=7), {}).facts[0]
    assert first.startswith("Not finished: 7 of 360 tasks")
    assert "Not finished" not in "".join(full_document.facts)
    empty = document(bare(report), {})
    assert "No scored prompt has been completed" in markdown(empty)
    assert "There are no measurements yet." in html(empty)


def test_texts_part_at_the_mark_and_lost_ones_are_reported(full_document: ReportDocument) -> None:
    page = html(full_document)
    assert page.count('class="mq-opened"') == 20
    assert (
        "<mark>, other ``` &lt;/pre&gt;</mark>" in page
        and '<mark class="mq-end">ends here</mark>' in page
    )
    assert page.count(GONE) == 17
