"""A study on two nodes of a Ray cluster, one of which is killed: nothing is lost, nothing is there
twice."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from evaluation.item import Item, Suite
from evaluation.study.events import LaneEnded
from evaluation.study.worker import Work
from mars_core.models import ModelPool
from mars_core.session import Session
from storage import RunStore
from tests.pairs import tiny_pair
from tests.unit.evaluation.study.working import check_complete, small_plan

TASKS = 12


def raylet_of(node: Any) -> int:
    """Return the process that starts a node's workers."""
    return int(node.all_processes["raylet"][0].process.pid)


def test_a_node_that_is_killed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster as Nodes

    from evaluation.study.cluster import Cluster

    spec = tiny_pair(tmp_path)
    session = Session(ModelPool(device="cpu", dtype="float32").get(spec))
    suite = Suite("numbers", tuple(Item(str(n), (f"{n}",)) for n in range(TASKS)))
    plan = replace(small_plan(session), suites=(suite,), max_new_tokens=2)
    store = RunStore(f"sqlite:///{tmp_path}/runs.db")
    study = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0})
    both = [nodes.add_node(num_cpus=1) for _ in range(2)]
    here = {"device": "cpu", "dtype": "float32", "no_graphs": False, "threads": 1}
    try:
        with (
            Cluster(Namespace(ray=nodes.address, **here), plan, spec) as cluster,
            Work(store, study) as work,
        ):
            saved = (event for event in cluster.events(work) if isinstance(event, LaneEnded))
            for number, _event in enumerate(saved):
                if number == TASKS:
                    worker = store.results(study)[-1].worker.split(":")[1]
                    parents = {each.pid for each in psutil.Process(int(worker)).parents()}
                    (working,) = (node for node in both if raylet_of(node) in parents)
                    nodes.remove_node(working, allow_graceful=False)
    finally:
        nodes.shutdown()
    check_complete(store, study, plan)
    assert len({result.worker for result in store.results(study)}) == 2
    store.close()
