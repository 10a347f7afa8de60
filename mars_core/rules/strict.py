"""The lossless rule. Needs only torch."""

from __future__ import annotations

from mars_core.rules.base import Rule, never

STRICT = Rule(
    name="strict",
    summary="Keeps a drafted token only where the target itself draws it: the text is the target's own.",
    formula="keep x iff x = y, y ~ p; sampled drafts: a = min(1, p/q), R = norm((p − q)₊)",
    source="Leviathan et al. 2211.17192; the one-hot form of EAGLE",
    forgive=never,
)
