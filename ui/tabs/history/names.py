"""How History calls rules and times: from the words of the store to those of the page."""

from __future__ import annotations

from ui.kit.labels import parameter_title, rule_title


def rule_words(label: str) -> str:
    """``mars(theta=0.9)`` of the store as ``MARS θ = 0.9``."""
    name, _, values = label.removesuffix(")").partition("(")
    pairs = (value.partition("=") for value in values.split(", ") if value)
    given = ", ".join(f"{parameter_title(key)} = {value}" for key, _, value in pairs)
    return f"{rule_title(name)} {given}".strip()
