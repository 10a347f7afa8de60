"""Margin-aware speculative decoding: engine, rules, trace."""

__version__ = "0.1.0"
