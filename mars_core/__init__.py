"""Margin-aware speculative decoding: engine, rules, trace. Knows no screen and no database."""

__version__ = "0.1.0"
