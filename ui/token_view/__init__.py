"""The text of a run, token by token: what it shows as plain values, template, scripts and style.
docs/reference/token-view.md describes the input."""
