"""The decoding loop on token ids: draft, one target pass, verdict, commit."""

from mars_core.engine.engine import MAX_IDLE, Engine, Engines, InvalidLogitsError, RawStep, Verifier

__all__ = ["MAX_IDLE", "Engine", "Engines", "InvalidLogitsError", "RawStep", "Verifier"]
