"""Services over a small real pair, which is loaded once a process, and a page that is never served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from gradio.context import Context

from mars_core.models import ModelPool, PairSpec
from storage import RunStore
from tests.eagle_pair import eagle_pair
from tests.pairs import tiny_pair
from ui.jobs.services import Services


@pytest.fixture(scope="session")
def spec(tmp_path_factory: pytest.TempPathFactory) -> PairSpec:
    return tiny_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> PairSpec:
    """A pair with an EAGLE-3 head."""
    return eagle_pair(tmp_path_factory.mktemp("eagle"))


@pytest.fixture(scope="session")
def pool(spec: PairSpec) -> ModelPool:
    """With ``spec`` in memory."""
    pool = ModelPool(device="cpu", dtype="float32")
    pool.get(spec)
    return pool


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        yield store


@pytest.fixture
def services(pool: ModelPool, spec: PairSpec, store: RunStore) -> Services:
    """The last lane runs first."""
    return Services(pool, store, (spec,), order=lambda lanes: list(reversed(range(lanes))))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[gr.Blocks]:
    """A page that is never served. Gradio makes event loops for it, which nobody would close: here it is one."""
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: loop)
    blocks = gr.Blocks(analytics_enabled=False)
    monkeypatch.setattr(Context, "root_block", blocks)
    yield blocks
    asyncio.set_event_loop(None)
    loop.close()
