"""A checkpoint's folder that a test spoils, and how it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from mars_core.models import ModelError, ModelPool, Pair, custom_pair
from mars_core.models.progress import Progress

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub's cache is ``cache``, and there is no network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))


def hub_snapshot(cache: Path, name: str, branch: str = "main") -> Path:
    """The empty folder of a model's commit, as the Hub client makes it."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / branch).write_text(COMMIT)
    folder = repository / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    return folder


def refused(caught: pytest.ExceptionInfo[ModelError]) -> str:
    """The message, which is one sentence."""
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message and message.endswith(".")
    return message


def load(
    target: Path | str,
    draft: Path | str | None = None,
    head: Path | str | None = None,
    *,
    dtype: str = "auto",
    progress: Progress = lambda _message: None,
) -> Pair:
    """A pair of folders, files or names, by a pool of its own."""
    others = (str(each) if each else None for each in (draft, head))
    return ModelPool(device="cpu", dtype=dtype).get(custom_pair(str(target), *others), progress)


def refusal(target: Path, draft: Path | None = None) -> str:
    """The message of the ModelError, which is one line, names the culprit and is no stack trace."""
    with pytest.raises(ModelError) as caught:
        load(target, draft)
    message = refused(caught)
    assert str(target) in message or (draft is not None and str(draft) in message)
    return message


def edit(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
