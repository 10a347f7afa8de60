"""``bench.load``: many clients at once, and many runs in a row."""
