"""The lossless rules, and the one without drafts."""

from __future__ import annotations

from mars_core.rules.base import PLAIN, Reach, Rule, strict

NONE = Rule(
    name=PLAIN,
    title="Target alone",
    summary="No drafts: the target generates every token itself. The baseline for speed.",
    formula="y ~ p",
    source="plain decoding",
    accept=strict,
    relaxes=0,
    modes=(),
)
STRICT = Rule(
    name="strict",
    title="Strict",
    summary="Keeps a drafted token only where the target itself draws it: the text is the target's.",
    formula="keep x iff x = y, y ~ p; sampled drafts: a = min(1, p/q), R = norm((p − q)₊)",
    source="Leviathan et al. 2211.17192; the one-hot form of EAGLE",
    accept=strict,
    relaxes=0,
)
BLOCK = Rule(
    name="block",
    title="Block verification",
    summary="Lossless like strict, but judges the whole draft at once: on sampled drafts it keeps at least as many tokens on average.",
    formula="pᵢ = min(1, pᵢ₋₁·p(xᵢ)/q(xᵢ)), Zᵢ = Σ(pᵢ·p − q)₊, keep up to the last i with u < Zᵢ/(Zᵢ + 1 − pᵢ), R = norm((pᵢ·p − q)₊)",
    source="block verification 2403.10444; on greedy drafts the same as strict",
    accept=strict,
    relaxes=0,
    reach=Reach.BLOCK,
)
