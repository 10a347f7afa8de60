"""How the page starts: it does not wait for a pair, says what is missing, and leaves the garbage collector on."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import app
from mars_core.models import ModelPool, PairSpec
from mars_core.types import ModelRef, PromptConfig
from storage import RunStore, StorageError
from tests.pairs import tiny_pair
from ui.workplace import Workplace


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def prepared(spec: PairSpec, folder: Path) -> ModelPool:
    with RunStore(f"sqlite:///{folder / 'runs.db'}") as store:
        place = Workplace(ModelPool(device="cpu", dtype="float32"), store, (spec,))
        gc.disable()
        app._prepare(place)
    return place.pool


def test_importing_the_app_leaves_the_collector_on() -> None:
    assert gc.isenabled()


def test_the_default_pair_is_there_and_the_collector_on(tmp_path: Path) -> None:
    spec = tiny_pair(tmp_path)
    assert prepared(spec, tmp_path).loaded() == (spec,)
    assert gc.isenabled() and gc.get_freeze_count() > 0


def test_a_default_pair_that_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = replace(tiny_pair(tmp_path), title="Lost", target=ModelRef(str(tmp_path / "nowhere")))
    assert prepared(spec, tmp_path).loaded() == ()
    assert "The pair 'Lost' is not available" in capsys.readouterr().err and gc.isenabled()


def test_what_was_deleted_long_ago_goes_for_good_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "KEPT", timedelta(0))
    spec = replace(tiny_pair(tmp_path), target=ModelRef(str(tmp_path / "nowhere")))
    with RunStore(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        gone, kept = (store.new_comparison(PromptConfig(text)) for text in ("gone", "kept"))
        store.delete(gone)
        app._prepare(Workplace(ModelPool(device="cpu", dtype="float32"), store, (spec,)))
        with pytest.raises(StorageError, match="no comparison"):
            store.restore(gone)
        assert store.load(kept).prompt.text == "kept"


@pytest.mark.parametrize(("said", "words"), [("yes", "must be on or off"), ("on", "requirements-mcp.txt")])
def test_mcp_is_asked_for_in_words_and_its_package_by_name(
    said: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARS_MCP", said)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=words):
        app.settings()


def test_the_page_does_not_import_what_only_models_need() -> None:
    code = "import sys, app; print([name for name in ('transformers', 'mars_core.decoder') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
