"""Measurements beside the field's own code, in one process and one run."""
