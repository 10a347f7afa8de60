"""History: saved comparisons, found, annotated, opened again exactly as they were displayed, and their
runs side by side."""
