"""Runs and comparisons: saved, read back, searched, voted on."""
