"""What all tests share: the fixtures of PostgreSQL, and which tests run in one process when there are several (pytest -n)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.postgres import postgres_folder, postgres_url

__all__ = ["postgres_folder", "postgres_url"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share its fixtures, so they run in one process; those of a folder that share a page too."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/browser/"):
                public = nodeid.startswith(
                    "tests/browser/test_account"
                )  # its page is that of test_origin and test_public
                return "tests/browser, m-z" if public or nodeid > "tests/browser/test_m" else "tests/browser, a-l"
            if nodeid.startswith("tests/unit/ui/public/"):
                return "tests/unit/ui/public"
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # the browser comes first: it takes longest
    return Scheduling(config, log)
