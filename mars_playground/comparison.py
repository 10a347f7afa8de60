"""One prompt under several rules, as the page compares it: texts, numbers, token view, tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from display.format import number, plural, shorten
from evaluation.conversation import follow_ups
from evaluation.records.beside import answers_beside
from evaluation.served.lane import server_keys
from mars_core.jobs import Job, RecordedRun, execution_order, follow, servers_last
from mars_core.models import ModelPool
from mars_core.session import Session
from mars_core.settings import Settings, read_lane
from mars_core.settings.interface import declared
from mars_core.types import RuleConfig, RunConfig, Trace
from mars_playground.running import all_runs
from storage import RunStore, StoredComparison, StoredRun
from ui.kit.labels import lane_labels

if TYPE_CHECKING:
    import pandas as pd

_HEIGHT_PX = 900  # of the view in a notebook


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of one prompt, in the order in which their rules were named. A notebook shows them
    token by token, as the page does. ``earlier``: the turns before, each alone. ``read``: of the
    traces, the last ones that were read from files."""

    traces: tuple[Trace, ...]
    order: tuple[int, ...]  # of execution: indices of ``traces``
    settings: Settings
    earlier: tuple[Comparison, ...] = ()
    read: int = 0

    def ask(self, prompt: str, *, history: str = "own") -> Comparison:
        """Ask a follow-up, with the same settings; returns the next turn of the conversation.

        ``history``: ``own``: every run goes on from its own answers; ``baseline``: all go on from
        those of the first that answered. Answers of files are not asked. Raises ValueError where a
        run failed, or without a chat template.
        """
        turns = follow_ups(self.traces[: len(self.traces) - self.read], prompt, history)
        return _run(
            self.settings,
            lambda session: session.asked(self.settings, turns),
            (*self.earlier, replace(self, earlier=())),
        )

    def with_answers(self, answers: Sequence[Trace]) -> Comparison:
        """Return it with runs that were not decoded here, after the others."""
        traces = (*self.traces, *answers)
        order = (*self.order, *range(len(self.traces), len(traces)))
        return replace(self, traces=traces, order=order, read=len(answers))

    @property
    def texts(self) -> dict[str, str]:
        """The rule with its parameters, as on the page → the text that it wrote."""
        return {name: trace.text for name, trace in self._named()}

    def __repr__(self) -> str:
        """Return a line a run; all of a run is in ``traces``."""
        runs = [
            f"  {name}: {plural(trace.summary.new_tokens, 'token')}, {trace.status}, "
            f"{number(trace.summary.tau)} tokens per target pass: {shorten(trace.text, 60)!r}"
            for name, trace in self._named()
        ]
        return "\n".join([f"Comparison of {shorten(self.settings.prompt, 60)!r}", *runs])

    def _named(self) -> Iterator[tuple[str, Trace]]:
        names = lane_labels([trace.config for trace in self.traces])
        for lane, (name, trace) in enumerate(zip(names, self.traces, strict=True), start=1):
            yield f"{name} (lane {lane})" if names.count(name) > 1 else name, trace

    def to_pandas(self, table: str = "runs") -> pd.DataFrame:
        """``runs``, ``tokens`` or ``nodes`` of a draft tree of all turns, one row each, with the
        columns of the exports (docs/data.md)."""
        from storage.export.unsaved import unsaved

        if table not in ("runs", "tokens", "nodes"):
            raise ValueError(f"table is {table!r}; it must be runs, tokens or nodes.")
        frame: pd.DataFrame = unsaved(table, self._executed()).to_pandas()
        return frame

    def save(self, database: str | None = None) -> str:
        """Saves the runs of all turns, for the page's History; returns the comparison's id. ``database``: a URL;
        by default the one that the page uses (MARS_DATABASE_URL, else this user's). Raises
        StorageError."""
        with RunStore(database or os.environ.get("MARS_DATABASE_URL")) as store:
            return self._save(store)

    def _save(self, store: RunStore) -> str:
        executed = self._executed()
        comparison = store.new_comparison(executed[0][1].config.prompt)
        for order, (lane, trace) in enumerate(executed):
            store.save_run(comparison, trace, lane=lane, order=order)
        return comparison

    def _executed(self) -> list[tuple[int, Trace]]:
        """Return the runs of all turns with their lanes, in the order of execution."""
        turns = (*self.earlier, self)
        return [(lane, turn.traces[lane]) for turn in turns for lane in turn.order]

    def to_html(self, *, figures: bool = True) -> str:
        """Return one HTML file that needs nothing else: the page's sentence, texts, numbers,
        figures."""
        from ui.report.page import report_html

        return report_html(self._stored(), figures=figures)

    def _stored(self) -> StoredComparison:
        runs = tuple(
            StoredRun("", lane, self.order.index(lane), trace)
            for lane, trace in enumerate(self.traces)
        )
        earlier = tuple(turn._stored() for turn in self.earlier)
        prompt, now = self.traces[0].config.prompt, datetime.now(UTC)
        return StoredComparison("", now, prompt, runs, earlier=earlier)

    def _repr_html_(self) -> str:
        document = escape(self.to_html(figures=False))
        return (
            f'<iframe title="Comparison" srcdoc="{document}" '
            f'style="width:100%;height:{_HEIGHT_PX}px;border:0"></iframe>'
        )


@partial(declared, left_out=("repeats", "graphs"))
def compare(
    prompt: str,
    *,
    rules: str | RuleConfig | Sequence[str | RuleConfig] = ("mars",),
    answers: Sequence[str | Path] = (),
    device: str = "auto",
    dtype: str = "auto",
    **settings: Any,
) -> Comparison:
    """Run the strict rule and ``rules`` on one prompt, each after a warm-up, in random order.

    ``rules``: texts such as ``mars`` and ``mars(theta=0.9)``, or ``RuleConfig("mars", {"theta":
    0.9})``; one stands for a list of one. ``server`` adds runs of servers; the environment
    variable MARS_SERVER_KEY holds the key, of several servers ``URL=KEY`` of each. ``answers``: files with answers to the prompt that a
    server gave (JSON or captured streams), each a lane after the others. Models stay loaded for later calls. Raises ValueError
    with one sentence that names the setting, ModelError.

    Args:
        **settings
    """
    read = Settings(prompt=prompt, rules=rules, **settings)  # type: ignore[arg-type]
    lanes = (read_lane("strict"), *read.rules)
    chosen = replace(read, rules=lanes, device=device, dtype=dtype)
    beside = answers_beside(answers, chosen.prompt_config, len(lanes))
    return _run(chosen, lambda session: session.configs(chosen)).with_answers(beside)


def _run(
    settings: Settings,
    read: Callable[[Session], tuple[RunConfig, ...]],
    earlier: tuple[Comparison, ...] = (),
) -> Comparison:
    keys, pool = server_keys(settings, os.environ), _models(settings.device, settings.dtype)
    session = Session(pool.get(settings.spec()))
    configs = read(session)
    for config in configs:
        session.check(config)
    order = servers_last(execution_order(len(configs)), configs)
    job = Job(session.pair.spec, configs, order)
    records: dict[int, RecordedRun] = {}
    for event in all_runs(pool, job, keys):
        follow(records, event)
    traces = tuple(records[lane].trace() for lane in range(len(configs)))
    return Comparison(traces, job.order, settings, earlier)


@cache
def _models(device: str, dtype: str) -> ModelPool:
    return ModelPool(device=device, dtype=dtype)
