"""Weights that a file has in few bits, kept so in memory: their products, and layers of them."""
