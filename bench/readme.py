"""``python -m bench.readme [JSON]``: the README's part about speed, from the newest stored result or the given one.

Everything between the markers follows from that one file; ``--check`` writes nothing and ends with 1 if something else stands there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, zip_longest
from operator import attrgetter
from os.path import relpath
from pathlib import Path

from bench.report import Document, Equality, Goal, OtherFormatError, Row, Share, Table, read, signed, times

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
START, END = "<!-- performance -->\n", "<!-- /performance -->\n"
LABELS: Mapping[str, str] = {
    "generate": "transformers `generate`",
    "assisted": "transformers assisted generation",
    "eagle3 chain": "`strict` (EAGLE-3 chain)",
    "eagle3 tree": "`strict` (EAGLE-3 tree)",
    "ngram": "`strict` (n-grams)",
    "strict, sampled": "`strict` (sampled drafts)",
}  # of the others the name itself
MEASURES: Mapping[str, str] = {"speed": "speed", "tau": "τ", "pace": "steps a second"}


def part(document: Document, link: str) -> str:
    """The text between the markers; ``link`` leads from the README to the Markdown of the same result."""
    return "\n".join(
        [
            *_introduction(document, link),
            "",
            *_tables(document.tables),
            "",
            *(f"- {each}" for each in _sentences(document)),
            "",
        ]
    )


def _introduction(document: Document, link: str) -> list[str]:
    options = document.options
    return [
        f"Bundled pair, {document.machine['hardware']}, K = {options['k']}, `mars` with θ = {options['theta']}, EAGLE-3 trees of"
        f" {options['tree']},",
        f"{options['prompts']} prompts (half held-out problems, half story requests) × {options['rounds']} rounds of at most"
        f" {options['max_new_tokens']} tokens,",
        f"interleaved in one process; median (quartiles) of the speed ratios, prompt by prompt (`make bench`, [full result]({link})):",
    ]


def _tables(tables: Sequence[Table]) -> list[str]:
    """Side by side, without the runs with the meter off."""
    columns = [[_cells(row) for row in table.rows if not row.name.endswith(", meter off")] for table in tables]
    heads = [f"temperature {table.temperature:g} | × `{table.baseline}` | τ" for table in tables]
    return [
        f"| {' | | '.join(heads)} |",
        f"|{'|---|'.join(['---|---:|---:'] * len(tables))}|",
        *(f"| {' | | '.join(row)} |" for row in zip_longest(*columns, fillvalue=" | | ")),
    ]


def _cells(row: Row) -> str:
    return f"{_label(row.name)} | {times(row.speed)} | {'–' if row.tau is None else f'{row.tau:.2f}'}"


def _label(name: str) -> str:
    return LABELS.get(name, f"`{name}`")


def _sentences(document: Document) -> list[str]:
    return [
        *_equalities(document.equalities),
        *_goals(document.goals),
        _shares(document.shares, document.share_goal),
    ]


def _equalities(equalities: Sequence[Equality]) -> Iterator[str]:
    """A sentence for each method whose tokens others must give."""
    for baseline, group in groupby(equalities, attrgetter("baseline")):
        found = ", ".join(f"{_label(each.method)} {each.same} of {each.count}" for each in group)
        yield f"Outputs at temperature 0 that are those of {_label(baseline)}, token for token: {found}."


def _goals(goals: Sequence[Goal]) -> Iterator[str]:
    """A sentence for each that binds, and one for each pair of methods with ratios for information."""
    for each in goals:
        if each.binding and each.goal is not None:
            what = f"{MEASURES[each.measure]} of {_label(each.method)} over {_label(each.baseline)}"
            reached = "reached" if each.reached else "not reached"
            yield f"At temperature 0, {what}: {times(each.measured)}; the goal of {each.goal:.2f}× is {reached}."
    information = [each for each in goals if not each.binding]
    for (method, baseline), group in groupby(information, attrgetter("method", "baseline")):
        found = ", ".join(f"{MEASURES[each.measure]} {times(each.measured)}" for each in group)
        yield f"At temperature 0, {_label(method)} over {_label(baseline)}, for information: {found}."


def _shares(shares: Sequence[Share], goal: float) -> str:
    medians = [share.measured.median for share in shares]
    reached = "reached" if max(medians) <= goal else "not reached"
    return (
        "What is measured of every token (p, q, margins, alternatives, TV, KL, log-likelihood) costs, by rule, drafter and temperature,"
        f" {signed(min(medians))} to {signed(max(medians))} of the wall time; the goal of at most {signed(goal)} is {reached}."
    )


def replaced(text: str, new: str) -> str:
    """``text`` with ``new`` between the markers. Raises ValueError if they are not there, once each and in order."""
    before, start, rest = text.partition(START)
    old, end, after = rest.partition(END)
    if not (start and end) or START in old or START in after or END in before or END in after:
        raise ValueError(f"The README needs the lines {START.strip()} and {END.strip()}, once each and in this order.")
    return f"{before}{START}{new}{END}{after}"


def newest(folder: Path) -> Path:
    """The latest result by the date that it tells. Raises ValueError if there is none of the present format, or one is broken."""
    dates: dict[Path, str] = {}
    for path in sorted(folder.glob("*-bundled-*.json")):
        with suppress(OtherFormatError):
            dates[path] = read(path).machine["date"]
    if not dates:
        raise ValueError(f"{folder} holds no result of the present format; make bench writes one.")
    return max(dates, key=lambda path: dates[path])


def generated(readme: Path, result: Path | None, results: Path = RESULTS) -> str:
    """The whole README as it should be. Raises ValueError with one sentence for what cannot be read."""
    path = (newest(results) if result is None else result).resolve()
    link = Path(relpath(path.with_suffix(".md"), readme.parent.resolve())).as_posix()
    return replaced(readme.read_text(encoding="utf-8"), part(read(path), link))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.readme", description=__doc__)
    parser.add_argument("result", type=Path, nargs="?", metavar="JSON")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the README would change")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    options = parser.parse_args(arguments)
    try:
        text = generated(options.readme, options.result)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.check:
        return 0 if text == options.readme.read_text(encoding="utf-8") else 1
    options.readme.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
