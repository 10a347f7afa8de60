"""The same tokens as ever for the same seeds: 26 configurations of the bundled pair in float32, written before the core was rebuilt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mars_core.models import CATALOG, ModelPool
from mars_core.session import Session
from mars_core.types import DrafterConfig, DraftMode, Sampling, TreeShape
from tests.live_pairs import config_for

STORED: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "token_ids.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(CATALOG[0]))


@pytest.mark.parametrize("stored", STORED, ids=lambda each: f"{each['rule']}-{each['drafter']}-{each['seed']}")
def test_tokens_and_steps_are_those_of_before(session: Session, stored: dict[str, Any]) -> None:
    tree = TreeShape(*stored["tree"]) if stored["tree"] else None
    config = config_for(
        session.pair, DrafterConfig(stored["drafter"], None, stored["k"], DraftMode(stored["mode"]), tree),
        Sampling(stored["temperature"], stored["top_k"], stored["top_p"]), prompt=stored["prompt"], rule=stored["rule"],
        new=64, seed=stored["seed"],
    )  # fmt: skip
    run = session.start(config)
    steps = list(run)
    assert [token.id for step in steps for token in step.emitted] == stored["token_ids"]
    assert len(steps) == stored["steps"]
