"""How tests/data/before-columns.db and .json were made: run in a checkout of commit 7068326, the last that stored a row a token.

PYTHONPATH=. python before_columns.py before-columns.db before-columns.json
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path

from mars_core.types import Exchange, PromptConfig, Status, TreeShape
from storage import Choice, Preferred, RunStore, Shared, Source
from tests.old_sweeps import add_old_sweep, belongs_to_sweep
from tests.traces import make_trace

HOSTILE = ["=a", "\x00", "\ud800␛", "", ' "b"\\', "nan", " 日本"]
PROMPT = '=HYPERLINK("x") \udfff\x00 <script>alert(1)</script> \'; DROP TABLE runs; --'
TALK = PromptConfig("And then?", chat=True, history=(Exchange("Tell\ud800", "a story\x00"),), thinking=True)
OWNER = "visitor-1"


def fill(store: RunStore) -> None:
    """Every kind of thing that a store can hold."""
    made = []
    for traces in (
        [make_trace(rule="strict", new_tokens=24), make_trace(rule="mars", new_tokens=24, seed=1)],
        [make_trace(rule="mars", new_tokens=16, words=HOSTILE, prompt=PROMPT)],
        [make_trace(rule="none", new_tokens=8, prompt="Straße 100% _ 日本")],
        [make_trace(new_tokens=0, status=Status.FAILED, prompt="")],
        [make_trace(new_tokens=5, status=Status.CANCELLED, temperature=0.0)],
        [make_trace(rule="mars", new_tokens=20, tree=TreeShape(12, 4, 3))],
        [make_trace(rule="strict", new_tokens=6, prompt=TALK)],
        [make_trace(rule="mars", new_tokens=6, prefix=[1, 2])],
        [make_trace(rule="strict", new_tokens=6, prompt="deleted")],
    ):
        made.append(store.new_comparison(traces[0].config.prompt, source=Source.COMPARE))
        for lane, trace in enumerate(traces):
            store.save_run(made[-1], trace, lane=lane, order=lane)
    store.annotate(made[0], name="Name ␛", tags=["b", "a\x00"], comment="=comment")
    store.delete(made[-1])
    vote_id = store.add_vote(made[0], left_lane=1, right_lane=0, choice=Choice.LEFT, comment="better")
    store.comment_vote(vote_id, "no: worse\ud800")
    sweep_id = add_old_sweep(store, {"theta": [0.8, 0.9], "x": float("nan")}, [{"tau": 2.5, "kl": float("inf")}])
    belongs_to_sweep(store, made[2], sweep_id)
    study_id = store.new_study("A study", {"name": "A study", "␛": float("inf")}, 3)
    for task in range(2):
        claim = store.claim_task(study_id, "worker", 600.0)
        assert claim
        for lane in range(2):
            run = make_trace(new_tokens=3 + lane, prompt=f"task {task}")
            store.save_result(claim, lane, [run], {"status": "completed", "tv_max": "nan"}, order=lane)
        if task == 0:
            store.finish_task(claim, {1: {"same": True, "bleu": "nan"}})
    store.add_judgement(study_id, 0, 1, swapped=True, judge="judge@1", choice=Preferred.TIE, text="so\x00")
    for kind, id_ in ((Shared.COMPARISON, made[1]), (Shared.SWEEP, sweep_id), (Shared.STUDY, study_id)):
        store.share(kind, id_)


def said(store: RunStore) -> dict[str, str]:
    """What the store gives back of everything, each as a hash of its Python spelling."""
    everything = {f"comparison {id_}": store.load(id_) for id_ in store.comparisons()["id"]}
    everything |= {f"study {head.id}": store.study(head.id) for head in store.studies()}
    everything |= {f"results {head.id}": store.results(head.id, unfinished=True) for head in store.studies()}
    everything |= {f"judgements {head.id}": store.judgements(head.id) for head in store.studies()}
    everything |= {
        "sweeps": tuple(store.sweep(sweep.id) for sweep in store.sweeps()),
        "votes": store.votes(),
        "shares": store.shares(),
        "counts": store.counts(),
    }
    spelled = {name: repr(value).replace(", repeats=())", ")") for name, value in everything.items()}  # a later field
    return {name: sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for name, text in spelled.items()}


if __name__ == "__main__":
    with RunStore(f"sqlite:///{Path(sys.argv[1]).absolute()}") as opened:
        fill(opened)
        fill(opened.of(OWNER))
        found = {"everybody": said(opened), OWNER: said(opened.of(OWNER))}
    Path(sys.argv[2]).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
