"""A job's events tell all of its runs: who follows them has the traces that the runs have."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch

from mars_core.jobs import Began, Ended, Event, Job, Record, Wrote, execution_order
from mars_core.jobs.accelerators import Local
from mars_core.jobs.perform import perform
from mars_core.models import ModelPool, PairSpec
from mars_core.rules import Rule
from mars_core.session import Run, Session, run_config
from mars_core.text.assembly import Assembler
from mars_core.types import (
    DrafterConfig,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Status,
    StopReason,
    Summary,
    Trace,
)
from mars_core.verification import judge
from tests.pairs import tiny_pair

NO_MEMORY = (
    "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> PairSpec:
    return tiny_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def pool() -> ModelPool:
    return ModelPool(device="cpu", dtype="float32")


def configs(pool: ModelPool, spec: PairSpec, *, new: int = 24, prefix: tuple[int, ...] = ()) -> tuple[RunConfig, ...]:
    rules = RuleConfig("strict"), RuleConfig("mars", {"theta": 0.9})
    prompt, sampling, drafter = PromptConfig("Once upon a time"), Sampling(1.0), DrafterConfig("model", k=3)
    made = (
        run_config(
            pool.get(spec), prompt=prompt, rule=rule, drafter=drafter, sampling=sampling, max_new_tokens=new, seed=3
        )
        for rule in rules
    )
    return tuple(replace(config, prefix=prefix) for config in made)


def followed(events: list[Event]) -> dict[int, Trace]:
    """The traces by run, as the events tell them."""
    records: dict[int, Record] = {}
    for event in events:
        if isinstance(event, Began):
            records[event.run] = Record(event)
        else:
            records[event.run].follow(event)
    return {run: record.trace() for run, record in records.items()}


def untimed(trace: Trace) -> Trace:
    """Without what differs from one time to the next, and with nan equal to itself."""

    def plain(summary: Summary) -> Summary:
        return replace(
            summary, wall_s=0, ttft_s=0, prefill_s=0, draft_s=0, verify_s=0, tokens_per_s=0, peak_memory_bytes=0
        )

    steps = tuple(replace(step, draft_s=0, verify_s=0, elapsed_s=0) for step in trace.steps)
    return replace(trace, steps=steps, summary=plain(trace.summary))


def never() -> bool:
    return False


@pytest.mark.parametrize("prefix", [(), (5, 6, 7)])
def test_events_tell_the_trace_that_the_run_has(pool: ModelPool, spec: PairSpec, prefix: tuple[int, ...]) -> None:
    both = configs(pool, spec, prefix=prefix)
    found = followed(list(perform(pool, Job(spec, both, (1, 0), interval_s=0.0), never)))
    assert list(found) == [1, 0]
    for number, config in enumerate(both):
        run = Session(pool.get(spec)).start(config)
        assert len(list(run)) > 1
        trace = run.trace()
        assert repr(untimed(found[number])) == repr(untimed(trace)) and trace.status is Status.COMPLETED
        summary = found[number].summary
        assert summary.peak_memory_bytes > 0 and 0 < summary.prefill_s < summary.ttft_s < summary.wall_s
        assert math.isclose(summary.wall_s, found[number].steps[-1].elapsed_s)


def test_an_interval_gathers_steps_and_the_first_comes_alone(pool: ModelPool, spec: PairSpec) -> None:
    events = list(perform(pool, Job(spec, configs(pool, spec)[:1], (0,), interval_s=60.0), never))
    assert [type(event) for event in events] == [Began, Wrote, Wrote, Ended]
    assert [(len(event.steps) == 1, event.last) for event in events if isinstance(event, Wrote)] == [
        (True, False), (False, True)
    ]  # fmt: skip
    assert pickle.loads(pickle.dumps(events)) is not None


def test_stop_ends_the_job_with_the_run_under_way(pool: ModelPool, spec: PairSpec, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    events = perform(pool, Job(spec, configs(pool, spec, new=400), (0, 1), interval_s=0.0), stop.exists)
    found = [next(events), next(events)]
    stop.touch()
    traces = followed([*found, *events])
    assert list(traces) == [0] and traces[0].stop_reason is StopReason.CANCELLED and len(traces[0].steps) == 2


def test_when_the_time_is_up_the_run_under_way_says_so_and_no_other_begins(pool: ModelPool, spec: PairSpec) -> None:
    traces = followed(list(perform(pool, Job(spec, configs(pool, spec, new=400), (1, 0), seconds=0.0), never)))
    assert list(traces) == [1] and len(traces[1].steps) == 1
    assert (traces[1].status, traces[1].stop_reason) == (Status.CANCELLED, StopReason.DEADLINE)


def failing(monkeypatch: pytest.MonkeyPatch, where: str, error: Exception) -> None:
    """One run breaks: the first that is no warm-up."""
    if where == "caches":
        from mars_core import session

        build, warm_up, state = session.build, session.Session.warm_up, {"warm": False, "broken": False}

        def warmed(*arguments: Any) -> None:
            state["warm"] = True
            warm_up(*arguments)
            state["warm"] = False

        def built(pair: Any, kind: Any) -> object:
            if not state["warm"] and not state["broken"]:
                state["broken"] = True
                raise error
            return build(pair, kind)

        monkeypatch.setattr(session.Session, "warm_up", warmed)
        monkeypatch.setattr(session, "build", built)
        return
    from mars_core.decoder.fast_cache import FastCache

    name = "read" if where == "prefill" else "forward"
    real: Callable[..., object] = getattr(FastCache, name)
    calls = [0]

    def broken_pass(self: FastCache, *args: object, **kwargs: object) -> object:
        if Began_seen[0]:
            calls[0] += 1
            if calls[0] == (1 if where == "prefill" else 6):
                raise error
        return real(self, *args, **kwargs)

    monkeypatch.setattr(FastCache, name, broken_pass)


Began_seen = [False]


@pytest.mark.parametrize("where", ["caches", "prefill", "mid-run"])
@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB."), RuntimeError(NO_MEMORY), MemoryError()]
)  # fmt: skip
def test_a_run_without_memory_fails_with_one_sentence_and_the_next_one_works(
    pool: ModelPool, spec: PairSpec, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    failing(monkeypatch, where, error)
    Began_seen[0] = False
    collected: list[bool] = []
    monkeypatch.setattr("mars_core.jobs.perform.collect", lambda: collected.append(True))
    events = []
    for event in perform(pool, Job(spec, configs(pool, spec), (0, 1), interval_s=0.0), never):
        Began_seen[0] = Began_seen[0] or isinstance(event, Began)
        events.append(event)
    first, second = followed(events).values()
    assert (first.status, first.stop_reason) == (Status.FAILED, StopReason.ERROR)
    assert first.error == "The memory of cpu ran out; take a shorter prompt, fewer new tokens or a smaller pair."
    assert bool(first.steps) == (where == "mid-run") and first.prompt_ids == second.prompt_ids
    assert second.status is Status.COMPLETED and collected == [True]


def test_the_caches_of_a_failed_run_are_let_go(
    pool: ModelPool, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gc
    import weakref

    from mars_core.engine import Engine

    engines: list[weakref.ref[Engine]] = []
    step = Engine._step

    def broken(self: Engine, ids: list[int], *rest: Any) -> object:
        engines.append(weakref.ref(self))
        if len(ids) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(self, ids, *rest)

    monkeypatch.setattr(Engine, "_step", broken)
    gc.disable()  # the job itself must collect
    try:
        events = perform(pool, Job(spec, configs(pool, spec)[:1], (0,)), never)
        assert any(isinstance(event, Ended) and event.status is Status.FAILED for event in events)
        assert engines and not any(engine() for engine in engines)
    finally:
        gc.enable()


def test_numbers_that_are_none_fail_one_run_and_not_the_others(
    pool: ModelPool, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(logits: torch.Tensor, draft: Any, rule: Rule, *rest: Any) -> torch.Tensor:
        if rule.name == "strict":
            logits = logits.clone()
            logits[-1, 3] = math.nan
        return judge(logits, draft, rule, *rest)

    monkeypatch.setattr("mars_core.engine.engine.judge", poisoned)
    traces = followed(list(perform(pool, Job(spec, configs(pool, spec), (0, 1)), never)))
    assert traces[0].status is Status.FAILED and "not numbers (NaN or infinity)" in traces[0].error
    assert traces[1].status is Status.COMPLETED


def test_what_was_written_before_a_failure_is_told(
    pool: ModelPool, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Assembler.step

    def broken(self: Assembler, raw: object, elapsed: float) -> object:
        if self._steps == 3:
            raise RuntimeError("The device is gone.\nstack")
        return real(self, raw, elapsed)  # type: ignore[arg-type]

    monkeypatch.setattr(Assembler, "step", broken)
    (trace,) = followed(list(perform(pool, Job(spec, configs(pool, spec)[:1], (0,)), never))).values()
    assert len(trace.steps) == 3 and trace.text.startswith("".join(token.piece for token in trace.tokens[:1]))
    assert trace.error == "The device is gone."


def test_a_check_takes_no_memory_and_completes_the_parameters(
    pool: ModelPool, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object, **__: object) -> None:
        raise AssertionError("caches were taken")

    monkeypatch.setattr("mars_core.session.build", taken)
    session, config = Session(pool.get(spec)), configs(pool, spec)[0]
    checked = session.check(replace(config, rule=RuleConfig("mars")))
    assert checked.config.rule.parameters == {"theta": 0.9} and len(checked.prompt_ids) > 1
    with pytest.raises(ValueError, match="theta is 2"):
        session.check(replace(config, rule=RuleConfig("mars", {"theta": 2.0})))


def test_a_closed_local_job_computes_no_further_step(
    pool: ModelPool, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    step = Run.__next__

    def counted(self: Run) -> object:
        steps.append(self)
        return step(self)

    monkeypatch.setattr(Run, "__next__", counted)
    with ThreadPoolExecutor(max_workers=1) as engine:
        events = Local(pool, engine).run(Job(spec, configs(pool, spec, new=400), (0, 1), interval_s=0.0), _Never())
        assert next(event for event in events if isinstance(event, Wrote))
        before = len(steps)
        events.close()
        assert engine.submit(len, steps).result() == before


class _Never:
    def requested(self) -> bool:
        return False


def test_runs_are_ordered_by_chance() -> None:
    """Each of the six orders of three runs comes up; one of them fails to do so in 2,000 draws with a chance of 1e-157."""
    assert {tuple(execution_order(3)) for _ in range(2000)} == set(permutations(range(3)))
