"""What followed relaxed tokens is saved with its run, read by who may read that, and goes with it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mars_core.counterfactual import Counterfactual
from mars_core.types import PromptConfig
from storage import RunStore
from tests.traces import NAN, make_trace
from tests.unit.storage.exports import csv_of, parsed

ONE = Counterfactual(
    3, "number", 0.95, 0.5, 1.25, 4, 10, 12, -0.5, -0.75, changed=True, strict_score=1.0
)
TWO = replace(
    ONE, position=7, r=NAN, meets_after=None, changed=None, strict_score=NAN, kind="punctuation"
)


def test_they_come_back_to_their_owner_and_in_exports(store: RunStore) -> None:
    anna = store.of("anna")
    comparison = anna.new_comparison(PromptConfig("x"))
    trace = make_trace(new_tokens=9, prompt=PromptConfig("x"))
    run = anna.save_run(comparison, trace, lane=0, order=0)
    anna.save_counterfactuals(run, [TWO, replace(ONE, changed=False)])
    anna.save_counterfactuals(run, [ONE])  # instead of the earlier one
    assert repr(anna.counterfactuals([run])) == repr({run: (ONE, TWO)})
    rows = parsed(csv_of("counterfactuals", anna))
    assert [row["run_id"] for row in rows] == [run, run]
    assert [(row["position"], row["kind"], row["meets_after"]) for row in rows] == [
        ("3", "number", "4"),
        ("7", "punctuation", ""),
    ]
    assert [(row["changed"], row["strict_score"], row["r"]) for row in rows] == [
        ("true", "1", "0.95"),
        ("", "", ""),
    ]
    assert json.loads(rows[0]["relaxed_logprob"]) == -0.75
    anna.delete(comparison)
    assert csv_of("counterfactuals", anna).count("\n") == 1 and anna.counterfactuals([run])
    anna.purge(datetime.now(UTC) + timedelta(seconds=1))
    assert anna.counterfactuals([run]) == {}
