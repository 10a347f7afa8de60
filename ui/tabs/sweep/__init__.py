"""The Sweep tab: one parameter of a rule varied over prompts."""
