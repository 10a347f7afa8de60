"""Runs: their validation, one run, and many at once on one engine."""
