"""The decoding loop on token ids: draft, one target pass, verdict, commit."""

from mars_core.engine.engine import Engine, InvalidLogitsError, RawStep

__all__ = ["Engine", "InvalidLogitsError", "RawStep"]
