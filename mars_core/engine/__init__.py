"""The decoding loop on token ids: draft, one target pass, verdict, commit."""

from mars_core.engine.engine import Engine
from mars_core.engine.raw_step import InvalidLogitsError, RawStep
from mars_core.engine.verifier import Verifier

__all__ = ["Engine", "InvalidLogitsError", "RawStep", "Verifier"]
