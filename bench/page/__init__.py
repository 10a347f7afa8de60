"""``bench.page``: start-up, first token and streaming of the page."""
