"""A small study on a tiny pair, and processes that work on it: forked from one that has imported the libraries, so they start at once."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from evaluation.study.plan import Lane, Models, Plan
from evaluation.suites.item import Item, Suite
from mars_core.types import DrafterConfig, RuleConfig
from storage import RunStore

PRELOADED = ["torch", "transformers", "mars_core.session", "evaluation.study.launch", "storage", "tests.pairs"]
NONE = Lane(RuleConfig("none"), DrafterConfig("none"))
STRICT = Lane(RuleConfig("strict"), DrafterConfig("model", None, 4))
MARS = Lane(RuleConfig("mars", {"theta": 0.5}), DrafterConfig("model", None, 4))


def small_plan(session: Any, **changed: Any) -> Plan:
    """Two suites, one with two turns; texts of at most 24 tokens."""
    pair = session.pair
    given: dict[str, Any] = {
        "name": "small",
        "models": Models(pair.spec.key, pair.target_ref, pair.draft_ref, pair.head_ref),
        "suites": (
            Suite(
                "sums",
                tuple(Item(str(n), (f"What is {n} + 1?",), (str(n + 1),)) for n in range(4)),
                metrics=("contains,none",),
            ),
            Suite("talk", (Item("t", ("Hello there", "Say it again")),)),
        ),
        "lanes": (NONE, STRICT, MARS),
        "temperatures": (1.0,),
        "max_new_tokens": 24,
        "chat": False,
    }
    return Plan(**given | changed)


def start_worker(url: str, study_id: str, pair: Path) -> BaseProcess:
    """A worker process of its own on the checkpoints in ``pair``."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_work, args=(url, study_id, pair), daemon=True)
    process.start()
    return process


def _work(url: str, study_id: str, folder: Path) -> None:
    import torch

    from evaluation.study.launch import work
    from evaluation.study.processes import Place
    from mars_core.models import ModelPool
    from mars_core.session import Session
    from tests.pairs import tiny_pair

    torch.set_num_threads(1)
    session = Session(ModelPool(device="cpu", dtype="float32").get(tiny_pair(folder)))
    with RunStore(url) as store:
        work(store, study_id, session, Place(), quiet=True)


def check_whole(store: RunStore, study_id: str, plan: Plan) -> None:
    """Every lane of every task is there once, its runs are in the store, and the store has no run that nobody counts."""
    results = store.results(study_id)
    lanes = range(len(plan.lanes))
    assert Counter((result.task, result.lane) for result in results) == Counter(
        (task, lane) for task in range(plan.tasks) for lane in lanes
    )
    assert all(result.relative is not None for result in results)
    wanted = [run_id for result in results for run_id in result.run_ids]
    assert len(set(wanted)) == len(wanted)
    records = store.records(wanted)
    kept = {record.comparison_id for record in records}
    assert sum(len(store.load(comparison).runs) for comparison in kept) == len(wanted)
    assert store.count() == len(kept)
