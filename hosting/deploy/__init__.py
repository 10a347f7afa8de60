"""Putting the page on a Hugging Face Space: what goes there, in which form, and the upload. ``python -m hosting.deploy``."""
