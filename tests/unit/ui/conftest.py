"""Services over a small real pair, which is loaded once a process, and a page that is never
served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from gradio.context import Context

from mars_core.models import ModelPool, PairSpec
from mars_core.types import Trace
from storage import RunStore
from tests.eagle_pair import eagle_pair
from tests.pairs import tiny_pair
from tests.unit.storage.exports import save
from tests.unit.ui.helpers import FORM, one_loop, run_comparison, traces_of
from ui.jobs.services import Services
from ui.tabs.compare.frames import DisplayedComparison


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
def ordered_services(services: Services) -> Services:
    """The first lane runs first."""
    return replace(services, order=lambda lanes: list(range(lanes)))


@pytest.fixture(scope="module")
def lasting(
    pool: ModelPool, spec: PairSpec, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Services]:
    """``services`` of all tests of a file."""
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('lasting') / 'runs.db'}") as store:
        yield Services(pool, store, (spec,), order=lambda lanes: list(reversed(range(lanes))))


@pytest.fixture(scope="session")
def traces(
    pool: ModelPool, spec: PairSpec, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trace, ...]:
    """The runs of FORM, by lane."""
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('runs') / 'runs.db'}") as store:
        list(run_comparison(Services(pool, store, (spec,)), FORM))
        return tuple(traces_of(store))


@pytest.fixture
def displayed(services: Services, traces: tuple[Trace, ...], spec: PairSpec) -> DisplayedComparison:
    """A saved comparison of ``traces`` that can be continued."""
    return DisplayedComparison(save(services.store, *traces), spec, (0, 1))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[gr.Blocks]:
    """A page that is never served."""
    with one_loop():
        blocks = gr.Blocks(analytics_enabled=False)
        monkeypatch.setattr(Context, "root_block", blocks)
        yield blocks
