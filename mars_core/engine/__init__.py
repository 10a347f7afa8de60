"""The decoding loop on token ids: draft, one target pass, verdict, commit."""

from mars_core.engine.engine import MOST, Engine, Engines, InvalidLogitsError, RawStep, Verifier

__all__ = ["MOST", "Engine", "Engines", "InvalidLogitsError", "RawStep", "Verifier"]
