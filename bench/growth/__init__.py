"""``bench.growth``: time and memory against context, K, tree size and vocabulary."""
