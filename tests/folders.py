"""A checkpoint's folder that a test spoils, and how it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mars_core.models import ModelError, ModelPool, Pair, custom_pair


def load(target: Path, draft: Path | None = None) -> Pair:
    return ModelPool(device="cpu").get(custom_pair(str(target), str(draft) if draft else None))


def refusal(target: Path, draft: Path | None = None) -> str:
    """The message of the ModelError, which is one line, names the culprit and is no stack trace."""
    with pytest.raises(ModelError) as caught:
        load(target, draft)
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message and message.endswith(".")
    assert str(target) in message or (draft is not None and str(draft) in message)
    return message


def edit(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
