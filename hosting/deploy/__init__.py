"""Deployment of the page to a Hugging Face Space. ``python -m hosting.deploy``."""
