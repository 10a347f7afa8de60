"""How the page starts: it does not wait for a pair, says what is missing, and leaves the garbage collector on."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import app
from hosting.settings import Settings, offered, read_settings
from mars_core.models import PairSpec
from mars_core.types import ModelRef
from storage import RunStore
from tests.unit.ui.places import place_of
from ui.jobs.preload import preload


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_the_default_pair_is_there_or_missed_and_the_collector_on(
    spec: PairSpec, store: RunStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert gc.isenabled()  # importing the app left it on
    lost = replace(spec, title="Lost", target=ModelRef(str(tmp_path / "nowhere")))
    for pair, loaded in ((spec, (spec,)), (lost, ())):
        pool = (place := place_of(store, catalog=(pair,))).pool
        gc.disable()
        preload(place)
        assert pool.loaded() == loaded and pool.ran == set(loaded)  # its first run was a rehearsal
        assert gc.isenabled() and gc.get_freeze_count() > 0
    assert "The pair 'Lost' is not available" in caplog.text


def test_mcp_without_its_package_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"requirements-mcp\.txt"):
        read_settings({"MARS_MCP": "on"})


def test_pairs_are_offered_by_their_keys_and_in_public_the_bundled_one(spec: PairSpec) -> None:
    first, second = replace(spec, key="small"), replace(spec, key="bundled")
    catalog = (first, second)
    assert offered(Settings(), catalog) == catalog
    assert offered(Settings(public=True), catalog) == (second,)
    assert offered(Settings(pairs=("bundled", first.key, "bundled")), catalog) == (second, first)
    with pytest.raises(ValueError, match=f"MARS_PAIRS names 'nowhere'; it can name {first.key}, bundled"):
        offered(Settings(pairs=("nowhere",)), catalog)


def test_the_page_is_built_without_what_only_models_need_and_its_endpoints_are_mcp_tools(tmp_path: Path) -> None:
    code = (
        "import sys, app; page = app.build_app(app.Services(app.ModelPool(), app.RunStore(sys.argv[1])));"
        "print(*[name for name in ('torch', 'transformers', 'mars_core.decoder') if name in sys.modules]);"
        "from gradio.mcp import GradioMCPServer; print(*sorted(GradioMCPServer(page).tool_to_endpoint))"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'runs.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, loaded, tools = done.stdout.splitlines()
    assert loaded == "" and tools == "compare comparison comparisons divergences pairs rules tokens"


@pytest.mark.parametrize(("given", "used"), [(None, [1]), ("2", [])])
def test_runs_leave_a_core_to_the_page_unless_told(
    given: str | None, used: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[str, int]] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr("torch.set_num_threads", lambda count: threads.append((threading.current_thread().name, count)))
    application = app.Application.open(Settings(database=f"sqlite:///{tmp_path / 'runs.db'}", device="cpu"), ())
    try:
        name = application.services.engine.submit(lambda: threading.current_thread().name).result()
    finally:
        application.close()
    assert threads == [(name, count) for count in used]


def test_the_pair_waits_for_the_first_visitor(spec: PairSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOAD_AFTER_S", 3600.0)
    application = app.Application.open(Settings(database=f"sqlite:///{tmp_path / 'runs.db'}", device="cpu"), (spec,))
    try:
        application.start()
        assert not application.services.pool.loaded()
        application.opened.set()
        while not application.services.pool.loaded():
            time.sleep(0.01)
    finally:
        application.close()
