"""A study on two nodes of a Ray cluster, one of which is killed: nothing is lost, nothing is there
twice, and the texts are those of this process. And one whose tasks end their processes."""

from __future__ import annotations

import os
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from evaluation.item import Item, Suite
from evaluation.plan.lane import with_placebos
from evaluation.plan.models import Models
from evaluation.study.cluster import Cluster, Process
from evaluation.study.events import LaneEnded
from evaluation.study.worker import Work, WorkerEvent
from mars_core.models import ModelPool
from mars_core.session import Session
from storage import RunStore
from tests.pairs import tiny_pair
from tests.unit.evaluation.calls import mars
from tests.unit.evaluation.study.working import (
    HERE,
    MARS,
    STRICT,
    check_complete,
    new_study,
    run_study,
    small_plan,
)

TASKS = 18
BARE = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}


class Fragile(Process):
    """It loads no models, and ends with every task."""

    def open(self, *_: Any) -> Iterator[None]:
        yield from ()

    def run(self, *_: Any) -> Iterator[Any]:
        os._exit(1)
        yield


def session_in(folder: Path) -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(tiny_pair(folder)))


def raylet_of(node: Any) -> int:
    """Return the process that starts a node's workers."""
    return int(node.all_processes["raylet"][0].process.pid)


def texts(store: RunStore, study: str) -> dict[tuple[int, int], list[str]]:
    return {
        (row.task, row.lane): [record.text for record in store.records(row.run_ids)]
        for row in store.results(study)
    }


def test_a_node_that_is_killed_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster as Nodes

    session = session_in(tmp_path)
    suite = Suite("numbers", tuple(Item(str(n), (f"{n}",)) for n in range(TASKS)))
    lanes = with_placebos((STRICT, MARS), 1)
    models = replace(Models.of(session.pair), key="own")  # read from their folders
    plan = small_plan(
        session, suites=(suite,), lanes=lanes, models=models, batch=2, max_new_tokens=6
    )
    url = f"sqlite:///{tmp_path}/runs.db"
    store = RunStore(url)
    study = new_study(store, plan)
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0} | BARE)
    both = [nodes.add_node(num_cpus=1) for _ in range(2)]
    commit, saved = Work.commit, count()

    def killing(work: Work, event: Any, worker: str, **options: bool) -> WorkerEvent:
        """Kill the node of this worker when a third of the lanes is saved."""
        done = commit(work, event, worker, **options)
        if isinstance(done, LaneEnded) and next(saved) == plan.runs // 3:
            parents = {each.pid for each in psutil.Process(int(worker.split(":")[1])).parents()}
            (working,) = (node for node in both if raylet_of(node) in parents)
            nodes.remove_node(working, allow_graceful=False)
        return done

    monkeypatch.setattr(Work, "commit", killing)
    try:
        assert mars(f"eval resume {study} --ray {nodes.address} --quiet {HERE} --db {url}") == 0
    finally:
        nodes.shutdown()
    check_complete(store, study, plan)
    assert len({result.worker for result in store.results(study)}) == 2
    assert texts(store, study) == texts(store, run_study(store, plan, session))
    store.close()


def test_a_task_that_ends_its_process_every_time_ends_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, store = session_in(tmp_path), RunStore(f"sqlite:///{tmp_path}/runs.db")
    plan = small_plan(session)
    monkeypatch.setattr("evaluation.study.cluster.Process", Fragile)
    options = Namespace(ray="local", device="cpu", threads=1)
    with (
        Cluster(options, plan, session.pair.spec) as cluster,
        pytest.raises(ChildProcessError, match=r"lost with task \d 3 times: "),
    ):
        deque(cluster.events(Work(store, new_study(store, plan))), maxlen=0)
    store.close()
