"""What all tests share: PostgreSQL, running pages, and which tests run in one process when there
are several (pytest -n)."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.postgres import postgres_folder, postgres_url
from tests.serving import Server, serving

__all__ = ["postgres_folder", "postgres_url"]
gc.disable()  # until everything is imported and collected
settings.register_profile(
    "busy", deadline=None
)  # how long an example takes depends on what else the machine does
settings.load_profile("busy")
os.environ |= {
    "RAY_worker_niceness": "0",  # else workers hardly run beside what other processes test
    "PIP_NO_INDEX": "1",  # no test fetches the default model but those that say so
}
# those that use the page in public mode, and of the browser's tests those that use no page
OTHER_PAGES = (
    "tests/unit/ui/public/",
    *(f"tests/browser/test_{name}.py" for name in ("account", "lane", "panel")),
)
MEMORY, ROOM = Path("/dev/shm"), 2 << 30  # bytes


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of tests in memory where there is room, and remove them at the end: on a
    disk, databases wait several times for every commit."""
    given = hasattr(config, "workerinput") or config.option.basetemp
    if not given and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        config.option.basetemp = tempfile.mkdtemp(prefix="mars-tests-", dir=MEMORY)
        config.add_cleanup(partial(shutil.rmtree, config.option.basetemp, ignore_errors=True))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays: all modules and tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """A test that starts a program in this process leaves no handler of signals behind."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The page for one person."""
    folder = tmp_path_factory.mktemp("page")
    with serving("tests.browser.serve", folder / "log", folder) as page:
        yield Server(f"{page.url}/", f"sqlite:///{folder / 'runs.db'}")
    code = page.process.returncode
    assert code == 0, f"SIGTERM must end the page cleanly; it ended with {code}:\n{page.log}"


@pytest.fixture(scope="module")
def loaded_once() -> Iterator[None]:
    """A pair is loaded once for all tests of a module, whatever pool they ask for it."""
    from mars_core.models import ModelPool

    load, pairs = ModelPool._load, dict[Any, Any]()

    def once(pool: Any, spec: Any, progress: Any) -> Any:
        key = (pool._wanted, spec.target, spec.draft, spec.head, spec.classifier)
        if key not in pairs:
            pairs[key] = load(pool, spec, progress)
        return pairs[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelPool, "_load", once)
        yield


@pytest.fixture(scope="session")
def make_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands that the Makefile writes into .venv/bin, in a separate folder, over a pip that
    does nothing."""
    folder = tmp_path_factory.mktemp("environment") / "bin"
    folder.mkdir()
    (folder / "pip").touch()
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$2" = pip ] || exec {sys.executable} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "LOCKED")
    }  # of make test
    command = ["make", f"VENV={folder.parent}", f"{folder.parent}/.requirements-eval"]
    subprocess.run(
        command, cwd=Path(__file__).parents[1], env=environment, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page in public mode."""
    from tests.unit.ui.public.conftest import public_page

    with public_page(tmp_path_factory.mktemp("public")) as page:
        yield page


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share its fixtures, so they run in one process; those of a folder that share a
    page too."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(OTHER_PAGES):
                return "tests/browser, others"
            if nodeid.startswith(("tests/browser/", "tests/unit/ui/test_api.py")):
                return "tests/browser"
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # the browser comes first: it takes longest
    return Scheduling(config, log)
