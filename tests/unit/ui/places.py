"""A services around a store, for tests that load no model."""

from __future__ import annotations

from typing import Any

from mars_core.models import ModelPool
from storage import RunStore
from ui.jobs.services import Services


def place_of(store: RunStore, **more: Any) -> Services:
    return Services(ModelPool(device="cpu", dtype="float32"), store, **more)
