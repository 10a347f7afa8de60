"""History: saved comparisons, found, annotated, opened again exactly as they were shown, and their
runs side by side."""
