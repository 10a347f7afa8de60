"""What tests of the page's runs share: settings, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mars_core.models import ModelPool
from mars_core.types import PromptConfig, Trace
from storage import RunStore, Source, StoredComparison
from tests.traces import make_trace
from ui.jobs.services import Services
from ui.kit.values import plain
from ui.settings.form import Form, LaneForm
from ui.tabs.compare.frames import Frame

FORM = Form(
    prompt="Once upon a time", pair="bundled", temperature=1.0, k=4, max_new_tokens=24, seed=3,
    lanes=(LaneForm("strict", {}), LaneForm("mars", {"theta": 0.2})),
)  # fmt: skip
LONG = replace(FORM, temperature=0.0, max_new_tokens=3900)  # the random model does not end by itself


def place_of(store: RunStore, **more: Any) -> Services:
    """For tests that load no model."""
    return Services(ModelPool(device="cpu", dtype="float32"), store, **more)


def keep(
    store: RunStore, prompt: str = "Tell me.", rules: Sequence[str] = ("strict", "mars"), *, source: Source = Source.COMPARE,
    new_tokens: int = 8, **more: Any,
) -> str:  # fmt: skip
    """The id of a saved comparison of made-up runs."""
    comparison = store.new_comparison(PromptConfig(prompt), source=source)
    for lane, rule in enumerate(rules):
        trace = make_trace(rule=rule, new_tokens=new_tokens, prompt=PromptConfig(prompt), **more)
        store.save_run(comparison, trace, lane=lane, order=lane)
    return comparison


def said(frame: Any) -> tuple[str, str]:
    """State and words of a frame's strip."""
    assert frame.strip is not None
    return frame.strip.state, plain(frame.strip.parts)


def running(frames: Iterator[Frame], column: int = 0) -> None:
    """Up to the first frame in which the lane writes."""
    next(f for f in frames if f.lanes and (view := f.lanes[column]) and view.state == "running")


def latest(store: RunStore) -> StoredComparison:
    return store.load(str(store.comparisons(limit=1)["id"].iloc[0]))


def traces_of(store: RunStore) -> list[Trace]:
    """Of the latest comparison, by lane."""
    return [run.trace for run in sorted(latest(store).runs, key=lambda run: run.lane)]
