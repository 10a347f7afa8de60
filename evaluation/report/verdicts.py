"""What studies found a rule to keep of strict's score on a pair: for the sentence on Compare.

``python -m evaluation.report.verdicts`` writes the file of the project's own studies, from the CSV
of docs/results; a test compares it with their reports. A study that ended in the database comes
before them, unless it has too few prompts to decide anything.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from threading import Lock

from pydantic import TypeAdapter

from evaluation.plan.lane import Lane
from evaluation.plan.plan import read_plan
from evaluation.recovery import LEAST_PROMPTS, RecoveryOutcome
from evaluation.report.values import Report
from evaluation.statistics import Interval
from mars_core.models import BUNDLED_PAIR, CATALOG, PairSpec
from mars_core.types import RunConfig
from storage import RunStore, StorageError

FILE = Path(__file__).with_name("verdicts.json")
RESULTS = Path(__file__).parents[2] / "docs" / "results"
HELD_OUT = "_fresh"  # of a suite's name: no setting was chosen on it
MOST_MEASURED = 3  # studies in the database of one rule, the latest


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule on one suite. ``rule``, ``drafts``: as of a lane; ``target``, ``drafter``: names of
    the models; ``report``: file below docs, empty of a study in the database."""

    target: str
    drafter: str
    drafts: str
    rule: str
    temperature: float
    suite: str
    prompts: int
    seeds: int
    recovery: Interval
    margin: float
    outcome: RecoveryOutcome
    study: str
    report: str = ""

    def has_drafts(self, lane: Lane) -> bool:
        """Return whether the drafts are those of a lane: at temperature 0 greedy and coupled ones
        are the same."""
        mode = "" if self.temperature else " greedy"
        return self.drafts.removesuffix(mode) == lane.drafts.removesuffix(mode)

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """Of two the larger counts: a study that can decide, a held-out suite, more runs."""
        decides, held_out = self.prompts >= LEAST_PROMPTS, self.suite.endswith(HELD_OUT)
        return decides, held_out, self.prompts * self.seeds


def verdicts_of(report: Report) -> Iterator[Verdict]:
    """Yield those of complete suites by their main metric."""
    plan = report.plan
    for row in report.measured:
        lane, score = plan.lanes[row.lane], row.main_score
        if row.group in plan.suite_names and score and score.verdict:
            yield Verdict(
                plan.models.target.name,
                _drafter(lane),
                lane.drafts,
                lane.name,
                row.temperature,
                row.group,
                row.prompts,
                row.seeds,
                score.recovery,
                plan.margin,
                score.verdict,
                report.id,
            )


def _drafter(lane: Lane) -> str:
    return lane.drafter.model.name if lane.drafter.model else ""


def best(found: Iterable[Verdict], config: RunConfig) -> Verdict | None:
    """Return what counts most for the rule of a run, on its models at its temperature: first of
    those with its drafts."""
    lane = Lane(config.rule, config.drafter)
    same = [
        each
        for each in found
        if (each.target, each.drafter) == (config.target.name, _drafter(lane))
        and (each.rule, each.temperature) == (lane.name, config.sampling.temperature)
    ]
    return max(same, key=lambda each: (each.has_drafts(lane), each.weight), default=None)


class Verdicts:
    """The verdicts of all studies; those in a database are measured once. Safe between threads."""

    def __init__(self) -> None:
        # by study: target and rules, and what was measured
        self._plans = dict[str, tuple[str, frozenset[str]]]()
        self._measured = dict[str, tuple[Verdict, ...]]()
        self._lock = Lock()

    def best(self, store: RunStore, config: RunConfig) -> Verdict | None:
        """``store``: of whoever asks."""
        own, shipped = best(self._own(store, config), config), best(stored(), config)
        return own if own and (own.prompts >= LEAST_PROMPTS or not shipped) else shipped

    def _own(self, store: RunStore, config: RunConfig) -> list[Verdict]:
        """Return those of the latest studies that ended and have the rule of a run on its target."""
        found: list[Verdict] = []
        studies = 0
        with suppress(StorageError), self._lock:
            for head in store.studies():
                if head.done == head.tasks and studies < MOST_MEASURED:
                    with suppress(StorageError, ValueError):
                        if self._has(store, head.id, config):
                            studies += 1
                            found += self._verdicts(store, head.id)
        return found

    def _has(self, store: RunStore, study: str, config: RunConfig) -> bool:
        if study not in self._plans:
            plan = read_plan(store.study(study).plan)
            names = frozenset(lane.name for lane in plan.lanes)
            self._plans[study] = plan.models.target.name, names
        target, rules = self._plans[study]
        return target == config.target.name and Lane(config.rule, config.drafter).name in rules

    def _verdicts(self, store: RunStore, study: str) -> tuple[Verdict, ...]:
        if study not in self._measured:
            from evaluation.report.measure import measure  # with SciPy, which a page begins without

            self._measured[study] = tuple(verdicts_of(measure(store, study)))
        return self._measured[study]


@cache
def stored() -> tuple[Verdict, ...]:
    return TypeAdapter(tuple[Verdict, ...]).validate_json(FILE.read_bytes())


PAIRS = {"smollm2": CATALOG[0], "bundled": BUNDLED_PAIR}  # how the names of their files begin


def from_results() -> list[Verdict]:
    """Return of each setting what counts most."""
    read = [
        each
        for path in sorted(RESULTS.glob("*.csv"))
        for each in _read(path, PAIRS.get(path.stem.split("-")[0]))
    ]
    found = {
        (each.target, each.drafts, each.rule, each.temperature): each
        for each in sorted(read, key=attrgetter("weight"))
    }
    return [found[key] for key in sorted(found)]


def _read(path: Path, spec: PairSpec | None) -> Iterator[Verdict]:
    """Yield those of one file of measured numbers; none of a file of another kind or pair."""
    if spec is None:
        return
    seen = set[tuple[str, ...]]()
    report = path.with_suffix(".md")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            lane = tuple(row.get(name, "") for name in ("group", "temperature", "lane"))
            outcome = row.get("verdict") or ("verdict" not in row and row.get("outcome"))
            if not outcome or "/" in lane[0] or lane in seen:
                continue  # the first metric of a suite is its main one
            seen.add(lane)
            ref = spec.head if row["drafts"].startswith("eagle3") else spec.draft
            yield Verdict(
                spec.target.name,
                ref.name if ref else "",
                row["drafts"],
                row["name"],
                float(row["temperature"]),
                lane[0],
                int(row["prompts"]),
                int(row["seeds"]),
                Interval(*(float(row[f"recovery{end}"]) for end in ("", "_low", "_high"))),
                float(row["margin"]),
                RecoveryOutcome(outcome),
                row["study"],
                f"results/{report.name}" if report.exists() else "results.md",
            )


def written(found: Iterable[Verdict]) -> str:
    """Return the content of the file: one verdict a line, numbers of six digits."""
    lines = [
        json.dumps(
            json.loads(
                json.dumps(asdict(each)), parse_float=lambda text: float(f"{float(text):.6g}")
            )
        )
        for each in found
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(written(from_results()), encoding="utf-8")
