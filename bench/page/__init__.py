"""``bench.page``: start, first token and streaming of the page."""
