"""Errors of this program: written to the log under an id, told to the visitor with that id and nothing else."""

from __future__ import annotations

import logging
import secrets

LOG = logging.getLogger("mars.faults")


def fault(error: BaseException, where: str) -> str:
    """Log ``error`` with its stack under a new id; the sentence for whoever asked, which names the id."""
    name = secrets.token_hex(4)
    LOG.error("fault", exc_info=error, extra={"fault": name, "where": where})
    return f"Something went wrong (error {name}). Completed runs were saved."
