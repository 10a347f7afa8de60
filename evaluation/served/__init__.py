"""Servers with an OpenAI-compatible interface: the client, and the runs of a served model."""
