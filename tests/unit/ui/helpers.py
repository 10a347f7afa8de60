"""What tests of the page share: settings, stored runs, what came of them, and what is hostile or
breaks."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mars_core.models import CATALOG, ModelPool
from mars_core.settings import Settings, read_lane
from mars_core.types import Outcome, Status, Token, Trace
from storage import RunStore, Search, Source, StorageError, StoredComparison
from tests.traces import make_trace
from tests.unit.storage.exports import save
from ui.jobs.admission import errors_as_frames
from ui.jobs.services import Services
from ui.kit.values import plain
from ui.routes import page_routes
from ui.tabs.compare import handlers
from ui.tabs.compare.frames import Frame
from ui.tabs.study.form import StudyForm
from ui.tabs.votes import round as votes
from ui.token_view.story import codes

FORM = Settings(
    prompt="Once upon a time",
    pair="bundled",
    drafter="model",
    temperature=1.0,
    k=4,
    max_new_tokens=24,
    seed=3,
    draft_mode="greedy",
    rules=(read_lane("strict"), read_lane("mars(theta=0.2)")),
)
SWEEP = StudyForm(
    {
        **{"purpose": "compare", "margin": 0.98, "repeats": 1},
        **{"pair": "bundled", "drafter": "model", "temperature": "1", "k": "3"},
        **{"suite": "prompts", "prompts": "Once\nTwice", "max_new_tokens": 8, "seed": 3},
        **{"rules": ["mars"], "parameters": "theta = 0.1 0.9"},
    }
)


def changed(form: StudyForm, **changes: Any) -> StudyForm:
    """With other values of its fields."""
    return StudyForm({**form.entered, **changes})


HIGH, LOW = 1, 2  # bits of a code, as rows.js reads them
HOSTILE = "<img src=x onerror=alert(1)></script>{{7*7}}\u202e\x1b[31m"
LONG = replace(
    FORM, temperature=0.0, max_new_tokens=3900
)  # the random model does not end by itself


def rows_of(table: str) -> list[tuple[dict[str, Any], str]]:
    """Of lines ``{"field": value} -> words``, as a browser or a program sends them."""
    lines = (line.partition(" ->") for line in table.strip().splitlines())
    return [(json.loads(fields), words.strip()) for fields, _, words in lines]


def services_of(store: RunStore, **more: Any) -> Services:
    """For tests that load no model. Without the catalog's first pair, a page begins with the
    bundled one."""
    return Services(
        ModelPool(device="cpu", dtype="float32"), store, **{"catalog": CATALOG[1:]} | more
    )


def client_of(services: Services) -> TestClient:
    """Asks for downloads."""
    return TestClient(Starlette(routes=page_routes(services)))


def failing(words: str, kind: Callable[[str], BaseException] = StorageError) -> Callable[..., Any]:
    """Whatever it is given, it raises."""

    def fail(*_: object, **__: object) -> None:
        raise kind(words)

    return fail


class PanicException(BaseException):
    """As pyo3 raises it where a library in Rust panics."""


@contextmanager
def one_loop() -> Iterator[None]:
    """Around a page that is never served: Gradio makes event loops for it, which nobody would
    close. Here it is one."""
    loop = asyncio.new_event_loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", lambda: loop)
        yield
    asyncio.set_event_loop(None)
    loop.close()


def keep(
    store: RunStore,
    prompt: str = "Tell me.",
    rules: Sequence[str] = ("strict", "mars"),
    *,
    source: Source = Source.COMPARE,
    new_tokens: int = 8,
    **more: Any,
) -> str:
    """The id of a saved comparison of made-up runs."""
    traces = [make_trace(rule=rule, new_tokens=new_tokens, prompt=prompt, **more) for rule in rules]
    return save(store, *traces, source=source)


class Judged(NamedTuple):
    """A drafted token that a run judged. ``code``: for another θ, as the page has it."""

    token: Token
    code: int

    @property
    def accepted(self) -> bool:
        return self.token.outcome in (Outcome.ACCEPTED, Outcome.RELAXED)

    def accepted_at(self, theta: float) -> bool:
        return bool(self.code & (LOW if self.token.r > theta else HIGH))


def judged(trace: Trace) -> list[Judged]:
    drafted = [token for step in trace.steps for token in step.tokens if token.node]
    return list(
        itertools.starmap(
            Judged, zip(drafted, map(int, codes(trace).replace(",", "")), strict=True)
        )
    )


def strip_text(frame: Any) -> tuple[str, str]:
    """State and words of a frame's strip."""
    return frame.strip.state, plain(frame.strip.parts)


def end_of(frames: Iterator[Any]) -> tuple[str, str]:
    """State and words of the last one."""
    *_, frame = frames
    return strip_text(frame)


def running(frames: Iterator[Frame], column: int = 0) -> None:
    """Up to the first frame in which the lane writes."""
    next(f for f in frames if f.lanes and (view := f.lanes[column]) and view.state == "running")


def latest(store: RunStore) -> StoredComparison:
    return store.load(store.matching_ids(Search(limit=1))[0])


def saved(services: Services) -> list[tuple[int, int, Status]]:
    """Lane, order and status of the latest comparison's runs."""
    return [(run.lane, run.order, run.trace.status) for run in latest(services.store).runs]


def traces_of(store: RunStore) -> list[Trace]:
    """Of the latest comparison, by lane."""
    return [run.trace for run in sorted(latest(store).runs, key=lambda run: run.lane)]


def run_comparison(*args: Any) -> Iterator[Frame]:
    """As the page runs it: an error is the last frame."""
    return errors_as_frames(handlers.run_comparison(*args), Frame, "compare")


def run_one_more(*args: Any) -> Iterator[Frame]:
    return errors_as_frames(handlers.run_one_more(*args), Frame, "continue")


def write_answers(*args: Any) -> Iterator[votes.RoundView]:
    return errors_as_frames(votes.write_answers(*args), votes.RoundView, "vote")
