"""The study that the page shows as an example: MARS on the default pair beside random
relaxation of as many tokens (docs/results.md).

``python -m evaluation.report.example STUDY`` writes the file from that study in the database, with
numbers of six digits and without prompts. A test compares it with
docs/results/smollm2-placebo.csv.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from evaluation.report.values import Report
from evaluation.suites.read import read_suite
from storage import RunStore

EXAMPLE = "338010b96d68474bbcc339e16c7481c0"  # its id
FILE = Path(__file__).with_name("example.json")


@cache
def example() -> Report:
    """Return the report of the file. Its plan has the items of the built-in suite; no prompt of it
    has texts."""
    report: Report = TypeAdapter(Report).validate_json(FILE.read_bytes())
    (suite,) = report.plan.suites
    return replace(
        report, plan=replace(report.plan, suites=(read_suite(suite.source, report.plan.limit),))
    )


def write(report: Report) -> None:
    """Write the file of a study of one built-in suite."""
    (suite,) = report.plan.suites
    shortened = replace(report.plan, suites=(replace(suite, items=suite.items[:1]),))
    fields = json.dumps(
        asdict(replace(report, plan=shortened, prompts=(), votes=(), judged=())), default=str
    )
    stored = json.loads(fields, parse_float=lambda text: float(f"{float(text):.6g}"))
    FILE.write_text(
        json.dumps(stored, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    from evaluation.report.measure import measure

    with RunStore(os.environ.get("MARS_DATABASE_URL") or None) as store:
        write(measure(store, sys.argv[1]))
