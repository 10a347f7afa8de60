"""``python -m bench.readme [JSON]``: the README's speed section, from the newest stored result or the given one.

Replaces the text between the markers; ``--check`` writes nothing and exits with 1 if the text differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby, zip_longest
from os.path import relpath
from pathlib import Path

from bench.common.command import RESULTS, ROOT
from bench.document import METER_OFF, SHARE_GOAL, Document, OtherFormatError, percent, read

START, END = "<!-- performance -->\n", "<!-- /performance -->\n"
LABELS = {
    "generate": "transformers `generate`",
    "assisted": "transformers assisted generation",
    "eagle3 chain": "`strict` (EAGLE-3 chain)",
    "eagle3 tree": "`strict` (EAGLE-3 tree)",
    "ngram": "`strict` (n-grams)",
    "strict, greedy": "`strict` (greedy drafts)",
    "strict, sampled": "`strict` (sampled drafts)",
}  # of the others the name itself


def part(document: Document, link: str) -> str:
    """The text between the markers, without the goals. ``link`` leads from the README to the Markdown of the result, which has them."""
    options = document.options
    lines = [
        f"Bundled pair, {document.machine['hardware']}, K = {options['k']}, `mars` with θ = {options['theta']}, EAGLE-3 trees of"
        f" {options['tree']},",
        f"{options['prompts']} prompts (half held-out problems, half story requests) × {options['rounds']} rounds of at most"
        f" {options['max_new_tokens']} tokens,",
        f"interleaved in one process; median (quartiles) of the speed ratios, prompt by prompt (`make bench`, [full result]({link})):",
    ]
    return "\n".join([*lines, "", *_tables(document), "", *_equalities(document), _telemetry_cost(document), ""])


def _tables(document: Document) -> Iterator[str]:
    """Side by side, without the runs with the meter off."""
    shown = [[row for row in table.rows if not row.name.endswith(METER_OFF)] for table in document.tables]
    columns = [
        [" | ".join((_label(row.name), *table.speed_and_tau(row))) for row in rows]
        for table, rows in zip(document.tables, shown, strict=True)
    ]
    heads = [f"temperature {table.temperature:g} | × `{table.baseline}` | τ" for table in document.tables]
    yield f"| {' | | '.join(heads)} |"
    yield f"|{'|---|'.join(['---|---:|---:'] * len(heads))}|"
    yield from (f"| {' | | '.join(row)} |" for row in zip_longest(*columns, fillvalue=" | | "))


def _label(name: str) -> str:
    return LABELS.get(name, f"`{name}`")


def _equalities(document: Document) -> Iterator[str]:
    """A sentence for each baseline with the methods that must produce the same tokens."""
    for baseline, group in groupby(document.equalities.items(), lambda each: each[0][1]):
        found = ", ".join(f"{_label(method)} {same} of {count}" for (method, _), (same, count) in group)
        yield f"- Outputs at temperature 0 that are those of {_label(baseline)}, token for token: {found}."


def _telemetry_cost(document: Document) -> str:
    medians = [share.median for table in document.tables for share in table.shares.values()]
    return (
        "- What is measured of every token (p, q, margins, alternatives, TV, KL, log-likelihood) costs, by rule, drafter and temperature,"
        f" {percent(min(medians))} to {percent(max(medians))} of the wall time; the goal of at most {percent(SHARE_GOAL)}"
        f" is {'reached' if max(medians) <= SHARE_GOAL else 'not reached'}."
    )


def replaced(text: str, new: str) -> str:
    """``text`` with ``new`` between the markers. Raises ValueError unless both occur once and in order."""
    if re.findall(f"{START}|{END}", text) != [START, END]:
        raise ValueError(f"The README needs the lines {START.strip()} and {END.strip()}, once each and in this order.")
    return f"{text.partition(START)[0]}{START}{new}{END}{text.partition(END)[2]}"


def newest(folder: Path) -> Path:
    """The latest result by its date. Raises ValueError if there is none of the current format, or one is damaged."""
    found = list[tuple[str, Path]]()
    for path in folder.glob("*-bundled-*.json"):
        with suppress(OtherFormatError):
            found.append((read(path).machine["date"], path))
    if not found:
        raise ValueError(f"{folder} holds no result of the present format; make bench writes one.")
    return max(found)[1]


def generated(readme: Path, result: Path | None, results: Path = RESULTS) -> str:
    """The complete README with the current text. Raises ValueError with one sentence if a file cannot be read."""
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
