"""``python -m bench.scale``: a study of 10,000 runs of 512 tokens: time of a save, a read and the
report.

A worker runs the full study of the bundled pair, but decodes each lane once only: later runs are
the first ones with their configurations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import complete, loaded
from bench.common.measure import seconds
from bench.common.report import BenchReport, Figures, MeasuredFigure
from evaluation.item import Item, Suite
from evaluation.plan.lane import Lane
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.report.measure import measure
from evaluation.scoring.names import CONTAINS
from evaluation.study.runner import Runner
from evaluation.study.worker import Work
from mars_core.models import Pair
from mars_core.session import Session
from mars_core.types import DrafterConfig, RuleConfig, RunConfig, Trace
from storage import RunStore, Search
from training.demo.corpus import held_out

REPORT_S = 2.0  # goals, at most
SAVE_MS, READ_MS = 15.0, 10.0  # of a run of 512 tokens, at most
DRAFTER = DrafterConfig("model", k=5)
LANES = (
    Lane(RuleConfig("none"), DrafterConfig("none")),
    Lane(RuleConfig("strict"), DRAFTER),
    *(Lane(RuleConfig("mars", {"theta": theta}), DRAFTER) for theta in (0.84, 0.9, 0.96)),
)
TEMPERATURES = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Repeating:
    """An engine that decodes every rule once at every temperature."""

    pair: Pair
    traces: dict[str, Trace] = field(default_factory=dict)

    def warm_up(self, _config: RunConfig) -> None:
        """Does nothing: times of runs are not measured."""

    def run(self, config: RunConfig) -> Generator[int, None, Trace]:
        key = f"{config.rule} {config.sampling}"
        if key not in self.traces:
            self.traces[key] = complete(self.pair, config)
        yield 0
        return replace(self.traces[key], config=config)


def build(store: RunStore, runs: int, tokens: int) -> str:
    """Build and return the id of a finished study of ``runs`` runs, rounded down to full items."""
    pair = replace(loaded(), eos_ids=frozenset())  # no text ends before its last token
    problems = held_out(runs // (len(LANES) * len(TEMPERATURES)))
    items = (
        Item(str(at), (each.question,), (str(each.answer),)) for at, each in enumerate(problems)
    )
    suite = Suite("synthetic", tuple(items), metrics=(CONTAINS,))
    plan = Plan("scale", Models.of(pair), (suite,), LANES, TEMPERATURES, max_new_tokens=tokens)
    study_id = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    runner = Runner(plan, Session(pair), Repeating(pair))
    events = Work(store, study_id).run(runner, deque(store.open_tasks(study_id)))
    for _ in events:
        pass
    return study_id


def one_run(store: RunStore, count: int) -> Figures:
    """Yield the time of saving one more run, and of reading it."""
    last = store.load(store.matching_ids(Search(limit=1))[0])
    trace = max((run.trace for run in last.runs), key=lambda trace: len(trace.steps))
    ids = [store.new_comparison(trace.config.prompt) for _ in range(count)]
    saves = [partial(store.save_run, id_, trace, lane=0, order=0) for id_ in ids]
    reads = [partial(store.load, id_) for id_ in ids]
    for name, work, most in (("saved", saves, SAVE_MS), ("read", reads, READ_MS)):
        title, times = f"a run of {len(trace.tokens)} tokens {name}", map(seconds, work)
        yield MeasuredFigure.of(title, (1000 * each for each in times), "ms", most=most)


@measurement("bench.scale", __doc__, runs=10_000, max_new_tokens=512, rounds=3)
def main(options: Options) -> Reports:
    with (
        TemporaryDirectory(prefix="mars-scale-") as name,
        RunStore(f"sqlite:///{name}/runs.db") as store,
    ):
        study_id = build(store, options.runs, options.max_new_tokens)
        figures = [*one_run(store, 10 * options.rounds)]
        reports = [seconds(partial(measure, store, study_id)) for _ in range(options.rounds)]
        figures.append(MeasuredFigure.of("report measured", reports, "s", most=REPORT_S))
        size = Path(name, "runs.db").stat().st_size / 1e9
    title = f"A study of {options.runs:,} runs of {options.max_new_tokens} tokens"
    yield BenchReport(title, [f"SQLite, {size:.2f} GB"], figures)


if __name__ == "__main__":
    raise SystemExit(main())
