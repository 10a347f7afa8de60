"""A job's events tell all of its runs: who follows them has the traces that the runs have."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count, permutations
from pkgutil import resolve_name
from typing import Any

import pytest
import torch

from mars_core.accelerators import Local
from mars_core.accelerators.perform import perform
from mars_core.engine.engine import Engine
from mars_core.jobs import Began, Ended, Job, JobEvent, RecordedRun, Wrote, execution_order, follow
from mars_core.models import ModelPool, PairSpec
from mars_core.session import Run, Session
from mars_core.types import (
    DrafterConfig,
    PromptConfig,
    RunConfig,
    Sampling,
    Status,
    StopReason,
    Trace,
)
from mars_core.verification import Draft, Known, Terms, decide
from tests.live_pairs import config_for, decoded
from tests.pairs import tiny_pair
from tests.unit.mars_core.test_live import recorded

NO_MEMORY = "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."


def never() -> bool:
    return False


@dataclass(frozen=True)
class Bench:
    """A pair, and jobs of two runs with it: strict, then mars."""

    pool: ModelPool
    spec: PairSpec

    def configs(self, new: int = 24, prefix: tuple[int, ...] = ()) -> tuple[RunConfig, ...]:
        pair, drafter = self.pool.get(self.spec), DrafterConfig("model", k=3)
        options: Any = {"prompt": "Once upon a time", "new": new, "seed": 3, "prefix": prefix}
        return tuple(
            config_for(pair, drafter, Sampling(1.0), rule=rule, **options)
            for rule in ("strict", "mars")
        )

    def job(self, *order: int, new: int = 24, prefix: tuple[int, ...] = (), **options: Any) -> Job:
        return Job(self.spec, self.configs(new, prefix), order, **options)

    def events(
        self, *order: int, stop: Callable[[], bool] = never, **options: Any
    ) -> Iterator[JobEvent]:
        return perform(self.pool, self.job(*order, **options), stop)

    def traces(self, *order: int, **options: Any) -> dict[int, Trace]:
        return followed(self.events(*order, **options))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(
        ModelPool(device="cpu", dtype="float32"), tiny_pair(tmp_path_factory.mktemp("pair"))
    )


def followed(events: Iterator[JobEvent]) -> dict[int, Trace]:
    """The traces by run, as the events tell them."""
    records: dict[int, RecordedRun] = {}
    for event in events:
        follow(records, event)
    return {run: record.trace() for run, record in records.items()}


@pytest.mark.parametrize("prefix", [(), (5, 6, 7)])
def test_events_tell_the_trace_that_the_run_has(bench: Bench, prefix: tuple[int, ...]) -> None:
    traces = bench.traces(1, 0, prefix=prefix, interval_s=0.0)
    assert list(traces) == [1, 0]
    for number, config in enumerate(bench.configs(prefix=prefix)):
        trace, summary = decoded(bench.pool.get(bench.spec), config), traces[number].summary
        assert recorded(traces[number]) == recorded(trace) and trace.status is Status.COMPLETED
        assert len(trace.steps) > 1
        assert (
            summary.peak_memory_bytes > 0
            and 0 < summary.prefill_s < summary.ttft_s < summary.wall_s
        )
        assert math.isclose(summary.wall_s, traces[number].steps[-1].elapsed_s)


def test_an_interval_gathers_steps_and_the_first_comes_alone(bench: Bench) -> None:
    events = list(bench.events(0, interval_s=60.0))
    assert [type(event) for event in events] == [Began, Wrote, Wrote, Ended]
    wrote = [(len(event.steps) == 1, event.last) for event in events if isinstance(event, Wrote)]
    assert wrote == [(True, False), (False, True)]
    assert pickle.loads(pickle.dumps(events)) is not None


@pytest.mark.parametrize(
    ("name", "call", "error"),
    [
        (
            "mars_core.session.build",
            1,
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB."),
        ),
        ("mars_core.decoder.fast_cache.FastCache.read", 1, RuntimeError(NO_MEMORY)),
        ("mars_core.decoder.fast_cache.FastCache.chains", 6, MemoryError()),
    ],
)
def test_a_run_without_memory_fails_with_one_sentence_and_the_next_one_works(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, call: int, error: Exception
) -> None:
    """At its caches, in the prefill, and in the midst."""
    real, calls, collected = resolve_name(name), count(1), []

    def broken(*args: Any, **options: Any) -> object:
        if next(calls) == call:
            raise error
        return real(*args, **options)

    monkeypatch.setattr(name, broken)
    monkeypatch.setattr("mars_core.accelerators.perform.collect", lambda: collected.append(True))
    first, second = bench.traces(0, 1, warm=True, interval_s=0.0).values()
    assert (first.status, first.stop_reason) == (Status.FAILED, StopReason.ERROR)
    assert (
        first.error
        == "The memory of cpu ran out; take a shorter prompt, fewer new tokens or a smaller pair."
    )
    assert bool(first.steps) == (call > 1) and first.prompt_ids == second.prompt_ids
    assert second.status is Status.COMPLETED and collected == [True]


def test_a_warm_up_on_a_cpu_reads_the_beginning_of_a_long_prompt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run all of it: who presses Stop does not wait for the same prompt several times."""
    begin, read = Engine.begin, list[int]()

    def counted(self: Engine, slot: int, verifier: Any, prompt: Any, *rest: Any) -> None:
        read.append(len(prompt))
        begin(self, slot, verifier, prompt, *rest)

    monkeypatch.setattr(Engine, "begin", counted)
    long = replace(bench.configs()[0], prompt=PromptConfig("Once upon a time " * 40))
    ended = [*perform(bench.pool, Job(bench.spec, (long,), (0,)), never)]
    assert isinstance(ended[-1], Ended) and ended[-1].status is Status.COMPLETED
    *warm, last = read
    assert set(warm) == {2} and last == len(ended[0].prompt_ids) > 128


def test_a_run_ends_between_two_passes_over_its_prompt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its engine reads the next prompt as if nothing had been."""
    monkeypatch.setattr("mars_core.decoder.cache.CHUNK", 32)
    long = replace(bench.configs()[0], prompt=PromptConfig("Once upon a time " * 40))
    job, asked = Job(bench.spec, (long,), (0,), warm=True), iter([False, False, True])
    (whole,) = followed(perform(bench.pool, job, never)).values()
    (ended,) = followed(perform(bench.pool, job, lambda: next(asked, True))).values()
    assert (ended.status, ended.stop_reason) == (Status.CANCELLED, StopReason.CANCELLED)
    assert not ended.steps and math.isnan(ended.summary.prefill_s)
    (again,) = followed(perform(bench.pool, job, never)).values()
    assert again.token_ids == whole.token_ids and len(whole.prompt_ids) > 3 * 32


@pytest.mark.parametrize(("runs", "warm_ups"), [(1, 1), (2, 4)])
def test_a_single_run_on_a_cpu_waits_for_one_warm_up_and_compared_ones_for_two_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, runs: int, warm_ups: int
) -> None:
    warmed = list[RunConfig]()
    monkeypatch.setattr(Session, "warm_up", lambda _, config: warmed.append(config))
    bench.pool.ran.discard(bench.spec)
    assert len(bench.traces(*range(runs))) == runs and len(warmed) == warm_ups


def test_numbers_that_are_none_fail_one_run_and_not_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(terms: Terms, draft: Draft, known: Known) -> torch.Tensor:
        if terms.rule.name == "strict":
            known = known._replace(logits=known.logits.clone())
            known.logits[-1, 3] = math.nan
        return decide(terms, draft, known)

    monkeypatch.setattr("mars_core.engine.verifier.decide", poisoned)
    traces = bench.traces(0, 1)
    assert traces[0].status is Status.FAILED and "not numbers (NaN or infinity)" in traces[0].error
    assert traces[1].status is Status.COMPLETED


def test_a_closed_local_job_computes_no_further_step(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    step = Run.__next__

    def counted(self: Run) -> object:
        steps.append(self)
        return step(self)

    monkeypatch.setattr(Run, "__next__", counted)
    with ThreadPoolExecutor(max_workers=1) as engine:
        events = Local(bench.pool, engine).run(bench.job(0, 1, new=400, interval_s=0.0), _Never())
        assert next(event for event in events if isinstance(event, Wrote))
        before = len(steps)
        events.close()
        assert engine.submit(len, steps).result() == before


class _Never:
    def requested(self) -> bool:
        return False


def test_runs_are_ordered_by_chance() -> None:
    """Each of the six orders of three runs comes up; one of them fails to do so in 2,000 draws with
    a chance of 1e-157."""
    assert {tuple(execution_order(3)) for _ in range(2000)} == set(permutations(range(3)))
