"""What a page begins with: its pairs, an accelerator of ZeroGPU, and the store with its backup."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from hosting.backup import Backup, backup_of
from hosting.settings import ServerSettings
from mars_core.accelerators import ZeroGpu
from mars_core.lazy import torch
from mars_core.models import BUNDLED_PAIR, ModelError, ModelPool, PairSpec, smollm2
from mars_core.models.gguf import fetch_default
from storage import RunStore, database_file, open_or_set_aside

LOG = logging.getLogger("mars")


def fetched(pairs: tuple[PairSpec, ...]) -> tuple[tuple[PairSpec, ...], str]:
    """Fetch the default model. Where it cannot be, the bundled pair becomes the first, and the
    page says so."""
    if not pairs or pairs[0].target.name != smollm2.NAME:
        return pairs, ""
    try:
        fetch_default(LOG.info)
        return pairs, ""
    except ModelError as error:
        LOG.warning(str(error))
    if BUNDLED_PAIR not in pairs:
        return pairs, ""
    return tuple(sorted(pairs, key=lambda pair: pair != BUNDLED_PAIR)), (
        f"{pairs[0].title} could not be fetched, so this page begins with the bundled pair, which "
        f"knows stories and sums only: run {smollm2.FETCH}, which tells why, and start the page "
        "again."
    )


def zero_gpu(
    pool: ModelPool, offered: Sequence[PairSpec], gpu: Any
) -> tuple[ZeroGpu, tuple[PairSpec, ...]]:
    """Loads all pairs before the page is launched; pairs that fail are not offered. ``gpu``:
    the decorator of ``spaces``. Raises ModelError if all fail."""
    loaded, missing = [], []
    for pair in offered:
        try:
            pool.get(pair)
            loaded.append(pair)
        except ModelError as error:
            missing.append(error)
            LOG.warning("The pair %s is not available: %s", pair.key, error)
    if not loaded:
        raise missing[0]
    return ZeroGpu(pool, loaded, gpu), tuple(loaded)


def opened_store(chosen: ServerSettings) -> tuple[RunStore, str, Backup | None]:
    """Open the store, its backup restored first where the disk is empty, and the notice about it.
    Raises ValueError, StorageError."""
    log = logging.getLogger("mars.backup")
    database = database_file(chosen.database)
    backup = backup_of(
        chosen.backup_repo, chosen.backup_token, database, chosen.backup_minutes, log
    )
    if backup and (restored := backup.restore()):
        log.info(restored)
    store, notice = open_or_set_aside(chosen.database)
    if notice:
        LOG.warning(notice)
        if backup:
            backup.hold("the database that is open is not the one that was backed up.")
    return store, notice, backup


def leave_a_core() -> None:
    """Let PyTorch compute on all cores but one: where the page's other threads or a browser take a
    core, every parallel region would wait for the thread that lost it."""
    torch.set_num_threads(max(1, torch.get_num_threads() - 1))
