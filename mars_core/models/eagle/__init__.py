"""EAGLE-3 heads from the Hub or a folder."""
