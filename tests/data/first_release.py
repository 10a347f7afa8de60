"""How tests/data/first-release.db was made: run in a checkout of commit c49ff39, the first one with storage, with its own code.

PYTHONPATH=. python first_release.py first-release.db
"""

from __future__ import annotations

import sys
from pathlib import Path

from mars_core.types import Status
from storage import RunStore
from tests.traces import make_trace

HOSTILE = ["=a", "\x00", "\ud800␛", "", ' "b"\\', "nan"]
PROMPT = '=HYPERLINK("x") \udfff\x00 <script>alert(1)</script> \'; DROP TABLE runs; --'

if __name__ == "__main__":
    with RunStore(f"sqlite:///{Path(sys.argv[1])}") as store:
        for traces in (
            [make_trace(rule="strict", new_tokens=24), make_trace(rule="mars", new_tokens=24, seed=1)],
            [make_trace(rule="mars", new_tokens=16, words=HOSTILE, prompt=PROMPT)],
            [make_trace(rule="none", new_tokens=8, prompt="Straße 100% _ 日本")],
            [make_trace(new_tokens=0, status=Status.FAILED, prompt="")],
            [make_trace(new_tokens=5, status=Status.CANCELLED, temperature=0.0)],
        ):
            comparison_id = store.new_comparison(traces[0].config.prompt)
            for lane, trace in enumerate(traces):
                store.save_run(comparison_id, trace, lane=lane, order=lane)
