"""How the page starts: it does not wait for a pair, says what is missing, and leaves the garbage collector on."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import app
from hosting.settings import Settings, offered, read_settings
from mars_core.models import ModelPool, PairSpec
from mars_core.types import ModelRef
from storage import RunStore
from tests.pairs import tiny_pair
from ui.jobs.services import Services


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def prepared(spec: PairSpec, folder: Path) -> ModelPool:
    with RunStore(f"sqlite:///{folder / 'runs.db'}") as store:
        place = Services(ModelPool(device="cpu", dtype="float32"), store, (spec,))
        gc.disable()
        app._prepare(place)
    return place.pool


def test_importing_the_app_leaves_the_collector_on() -> None:
    assert gc.isenabled()


def test_the_default_pair_is_there_and_the_collector_on(tmp_path: Path) -> None:
    spec = tiny_pair(tmp_path)
    assert prepared(spec, tmp_path).loaded() == (spec,)
    assert gc.isenabled() and gc.get_freeze_count() > 0


def test_a_default_pair_that_is_missing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = replace(tiny_pair(tmp_path), title="Lost", target=ModelRef(str(tmp_path / "nowhere")))
    assert prepared(spec, tmp_path).loaded() == ()
    assert "The pair 'Lost' is not available" in caplog.text and gc.isenabled()


def test_mcp_without_its_package_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"requirements-mcp\.txt"):
        read_settings({"MARS_MCP": "on"})


def test_pairs_are_offered_by_their_keys_and_in_public_the_bundled_one(tmp_path: Path) -> None:
    first, second = replace(tiny_pair(tmp_path), key="small"), replace(tiny_pair(tmp_path), key="bundled")
    catalog = (first, second)
    assert offered(Settings(), catalog) == catalog
    assert offered(Settings(public=True), catalog) == (second,)
    assert offered(Settings(pairs=("bundled", first.key, "bundled")), catalog) == (second, first)
    with pytest.raises(ValueError, match=f"MARS_PAIRS names 'nowhere'; it can name {first.key}, bundled"):
        offered(Settings(pairs=("nowhere",)), catalog)


def test_the_page_is_built_without_what_only_models_need(tmp_path: Path) -> None:
    code = (
        "import sys, app; store = app.RunStore(sys.argv[1]); app.build_app(app.Services(app.ModelPool(), store));"
        "print([name for name in ('torch', 'transformers', 'mars_core.decoder') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'runs.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("given", "used"), [({}, 1), ({"OMP_NUM_THREADS": "2"}, 2)])
def test_runs_leave_a_core_to_the_page_unless_told(given: dict[str, str], used: int, tmp_path: Path) -> None:
    code = (
        "import sys, app, torch; torch.set_num_threads(2); chosen = app.Settings(database=sys.argv[1]);"
        "place = app.Application.open(chosen, app.CATALOG).services; print(place.engine.submit(torch.get_num_threads).result())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | given
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'runs.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == str(used)


def test_endpoints_are_mcp_tools_of_the_same_names(tmp_path: Path) -> None:
    code = (
        "import sys, app; from gradio.mcp import GradioMCPServer; store = app.RunStore(sys.argv[1]);"
        "page = app.build_app(app.Services(app.ModelPool(), store)); print(*sorted(GradioMCPServer(page).tool_to_endpoint))"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'runs.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    tools = ["compare", "comparison", "comparisons", "divergences", "pairs", "rules", "tokens"]
    assert done.stdout.splitlines()[-1].split() == tools


def test_the_pair_waits_for_the_first_visitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tiny_pair(tmp_path)
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
