"""The documentation keeps up with the code: rules and figures, examples, tests, paths, links."""

from __future__ import annotations

import ast
import re
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluation.report.measured import METRICS
from evaluation.report.metrics import Mean, Pooled, Quartiles, ShareOfRuns
from mars_core import drafting
from mars_core.drafting import DRAFTERS, DrafterKind
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, Sampling
from tests.live_pairs import config_for, decoded, random_pair
from ui.kit.glossary import TERMS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = re.compile(
    r"(?<![\w/.-])(?:ui|display|evaluation|storage|mars_core|hosting|bench|tests|training|[.]ci)/[\w./-]*"
)
PLACEHOLDER = re.compile(r"\bNAME\b")
PAGES = (*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md")
DRAFTING = [rule for rule in RULES.values() if rule.modes]


@pytest.fixture(scope="module")
def drawing() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(DOCS / "figures" / "draw.py")))


def test_every_rule_has_a_paragraph_and_no_other_has() -> None:
    text = (DOCS / "verification.md").read_text(encoding="utf-8")
    assert re.findall(r"^### `(.+)`$", text, re.MULTILINE) == list(RULES)
    assert re.findall(r"^!\[.+\]\(figures/(.+)\.svg\)$", text, re.MULTILINE) == [
        rule.name for rule in DRAFTING
    ]


@pytest.mark.parametrize("rule", DRAFTING, ids=lambda rule: rule.name)
def test_figures_show_what_the_code_does(rule: object, drawing: SimpleNamespace) -> None:
    assert isinstance(rule, drawing.Rule)
    stored = (DOCS / "figures" / f"{rule.name}.svg").read_text(encoding="utf-8")
    assert drawing.svg(rule) == stored, "run: .venv/bin/python docs/figures/draw.py"


def examples(name: str) -> list[dict[str, object]]:
    """The names that each Python example of a page defines."""
    text = (DOCS / name).read_text(encoding="utf-8")
    definitions = []
    for number, block in enumerate(text.split("```python\n")[1:]):
        defined: dict[str, object] = {"__name__": f"example{number}"}
        exec(
            compile(block.split("```")[0], f"{name}, example {number}", "exec", dont_inherit=True),
            defined,
        )
        definitions.append(defined)
    return definitions


def test_the_example_of_a_new_drafter_drafts_and_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repeat = examples("contributing.md")[1]["REPEAT"]
    assert isinstance(repeat, DrafterKind)
    monkeypatch.setattr(drafting, "DRAFTERS", {repeat.name: repeat, **DRAFTERS})
    pair = replace(random_pair(eos=frozenset()), draft=None)
    assert drafting.offered(pair)[0] == repeat.name
    traces = [
        decoded(pair, config_for(pair, DrafterConfig(name), Sampling(1.0)))
        for name in (repeat.name, "none")
    ]
    assert traces[0].token_ids == traces[1].token_ids and traces[0].summary.drafted > 0


def test_every_test_of_the_invariants_exists() -> None:
    """``::test`` is of the file named before it in the line."""
    count, missing = 0, []
    for line in (DOCS / "testing.md").read_text(encoding="utf-8").splitlines():
        path = ""
        for file, test in re.findall(r"`([\w/]+\.py)?::(\w+)`", line):
            path = file or path
            count += 1
            if test not in named_tests(ROOT / path):
                missing.append(f"{path}::{test}")
    assert count > 250
    assert not missing, missing


@cache
def named_tests(path: Path) -> set[str]:
    """The names of the functions of a file, those of classes among them; empty where there is no
    such file."""
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_invariant_names_a_test() -> None:
    tested = (DOCS / "testing.md").read_text(encoding="utf-8").split("## Not tested")[0]
    lines = [line for line in tested.splitlines() if line.startswith("- ")]
    assert lines and [line for line in lines if "::test_" not in line] == []


def test_every_path_of_the_documentation_exists() -> None:
    """A module may be named without its suffix; a name with NAME in it stands for a file that a
    reader makes."""
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in (
            named.rstrip(".") for named in SOURCES.findall(page.read_text(encoding="utf-8"))
        )
        if not PLACEHOLDER.search(path)
        and not (ROOT / path).exists()
        and not (ROOT / f"{path}.py").is_file()
    ]
    assert not missing, missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Links to files of the repository, and to headings of its pages."""
    for target, heading in re.findall(
        r"\]\(([A-Za-z0-9_./-]*)(?:#([a-z0-9-]+))?\)", page.read_text(encoding="utf-8")
    ):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not heading or heading in anchors(linked), f"{target}#{heading}"


def anchors(page: Path) -> list[str]:
    """The headings of a page as GitHub links to them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_the_glossary_marks_the_terms_of_the_page() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\* \[([^]]+)\]\([^)]+\)(\??)", text, re.MULTILINE)
    assert len(terms) == text.count("\n* ") > 60
    assert sorted(name for name, mark in terms if mark) == sorted(
        term.symbol for term in TERMS.values()
    )


def test_the_metrics_of_a_study_have_their_declared_formulas() -> None:
    lines = [f"* `{name}`: {formula(metric.average)}" for name, metric in METRICS.items()]
    text = (DOCS / "reference" / "statistics.md").read_text(encoding="utf-8")
    assert "\n\n" + "\n".join(lines) + "\n\n" in text


def formula(average: Pooled | Mean | ShareOfRuns | Quartiles) -> str:
    match average:
        case Pooled(top, bottom, over, minus):
            value = f"Σ `{top}` / " + (f"Σ `{bottom}`" if bottom else "runs")
            return value + (f", {'minus' if minus else 'over'} {over}'s" if over else "")
        case Mean(top, bottom, over):
            value = f"`{top}`" + (f" / `{bottom}`" if bottom else "")
            return f"mean over runs of {value}" + (
                f" over {over}'s in the same task" if over else ""
            )
        case ShareOfRuns(field):
            return f"share of runs with `{field}`"
        case Quartiles(field):
            return f"median and quartiles of `{field}`, over the runs that differ"


def test_the_command_line_lists_every_rule_and_every_drafter() -> None:
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rules, drafters = (
        set(re.findall(r"`([\w-]+)`", re.findall(rf"^\| `{option}` .+$", text, re.MULTILINE)[0]))
        for option in ("--rule", "--drafter")
    )
    assert rules - {"--rule"} == set(RULES) and set(DRAFTERS) - drafters == {"model"}
