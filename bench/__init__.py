"""Benchmarks, with the field's reference implementations in the same process and run."""
