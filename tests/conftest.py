"""What all tests share: the fixtures of PostgreSQL, and which tests run in one process when there are several (pytest -n)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.postgres import postgres_folder, postgres_url

__all__ = ["postgres_folder", "postgres_url"]
# of the browser's tests those that do not use the page for one person
OTHER_PAGES = tuple(f"tests/browser/test_{name}.py" for name in ("account", "lane", "origin", "panel"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share its fixtures, so they run in one process; those of a folder that share a page too."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/browser/"):
                return "tests/browser, others" if nodeid.startswith(OTHER_PAGES) else "tests/browser"
            if nodeid.startswith("tests/unit/ui/public/"):
                return "tests/unit/ui/public"
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # the browser comes first: it takes longest
    return Scheduling(config, log)
