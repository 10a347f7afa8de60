"""Rules that relax by probability: a weaker acceptance test, or a probability threshold."""

from __future__ import annotations

from mars_core.lazy import torch
from mars_core.rules.base import (
    Evidence,
    Parameter,
    Rule,
    Siblings,
    Values,
    entropy_of,
    everywhere,
)


def lenience(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return min(1, p/(ℓ·q)); at temperature 0 1 if p(x) ≥ ℓ·max p with p = softmax(z), else 0."""
    if evidence.greedy:
        return evidence.beside_best(values["lenience"])
    return (evidence.ratio / values["lenience"]).clamp(max=1)


def ears(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return P(u ≤ p/q + τ₀·(1 − max p)); a token that p excludes is never accepted."""
    raised = evidence.ratio + values["tolerance"] * (1 - evidence.largest(evidence.distribution))
    return torch.where(evidence.p > 0, raised.clamp(max=1), 0.0)


def entropy(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return P(u·min(e^(−αH), t) ≤ p/q), H the entropy of p in nats."""
    spread = evidence.per_row(entropy_of(evidence.distribution))
    bar = (-values["alpha"] * spread).exp().clamp(max=values["limit"])
    return (evidence.ratio / bar).clamp(max=1)


def typical(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1 where p(x) > min(ε, δ·e^(−H)), H = −Σ p·ln(p + 1e-5); at temperature 0 strict."""
    if evidence.greedy:
        return evidence.strict
    spread = evidence.per_row(
        -(evidence.distribution * (evidence.distribution + 1e-5).log()).sum(-1, keepdim=True)
    )
    bar = (values["delta"] * (-spread).exp()).clamp(max=values["epsilon"])
    return evidence.p > bar


def topk_delta(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1 for the N best with p₁ − p(x) ≤ δ; p = softmax(z) at every temperature."""
    near = evidence.below_best(evidence.logits.softmax(-1)) <= values["delta"]
    return near & _among(evidence, values)


def topk_ratio(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1 for the K best with p(x) ≥ ρ·p₁; at temperature 0 p = softmax(z)."""
    return evidence.beside_best(values["ratio"]) & _among(evidence, values)


def threshold(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return min(1, Σp/θ_acc) over the siblings up to x, minus the share of those before it; 1 if
    p(x) ≥ θ_single. Sampled drafts: p/q for p."""
    if evidence.greedy:
        return (evidence.of(evidence.soft) >= values["single"]) | evidence.is_top(1)
    ratio = evidence.ratio.double()
    taken = (evidence.tried / values["accumulated"]).clamp(max=1)
    share = ((ratio + evidence.tried) / values["accumulated"]).clamp(max=1) - taken
    left = (1 - taken).clamp(min=torch.finfo(torch.float64).tiny)
    return torch.where(ratio >= values["single"], 1.0, share / left)


def _among(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return bool [E, C]: fewer than ``n`` tokens have a larger logit than the candidate."""
    z = evidence.logits
    least = evidence.per_row(z.topk(min(int(values["n"]), z.shape[-1])).values[:, -1:])
    return evidence.of(z) >= least


LENIENCE = Rule(
    name="lenience",
    title="Lenience",
    summary="The acceptance test with a smaller q: no token becomes more than 1/ℓ times as likely as under the target.",
    formula="a = min(1, p/(ℓ·q)), R = norm((p − q)₊); temperature 0: p(x) ≥ ℓ·max p with p = softmax(z)",
    source="Leviathan et al. 2211.17192, appendix A.5, which leaves R open",
    accept=lenience,
    parameters=(
        Parameter("lenience", "ℓ", 0.5, 1e-6, 1.0, "ℓ: q is multiplied by it; 1 is strict"),
    ),
)
EARS = Rule(
    name="ears",
    title="EARS",
    summary="The uniform of the acceptance test is lowered where the target is unsure.",
    formula="keep x iff p/q ≥ u − τ₀·(1 − max p) and p > 0; R = norm((p − q)₊); temperature 0: strict",
    source="EARS 2512.13194; vllm-ascend pull requests 5587, 7845 (default there: off)",
    accept=ears,
    parameters=(
        Parameter(
            "tolerance",
            "τ₀",
            0.3,
            0.0,
            1.0,
            "τ₀: how much the uniform is lowered at most; 0 is strict",
        ),
    ),
)
ENTROPY = Rule(
    name="entropy",
    title="Entropy",
    summary="The uniform of the acceptance test is scaled down where the target's entropy is high.",
    formula="keep x iff p/q ≥ u·min(e^(−αH), t); R = norm((p − q)₊); temperature 0: strict",
    source="vllm-ascend, entropy-based rejection sampling; never quite strict while t < 1",
    accept=entropy,
    parameters=(
        Parameter(
            "alpha", "α", 0.4, 0.0, 100.0, "α: weight of the entropy; 0 with t = 1 is strict"
        ),
        Parameter("limit", "t", 0.95, 1e-6, 1.0, "t: the scale at entropy 0"),
    ),
)
TYPICAL = Rule(
    name="typical",
    title="Typical acceptance",
    summary="Keeps every drafted token that is typical of the target: more likely than a threshold that falls with the entropy.",
    formula="a = 1 iff p(x) > min(ε, δ·e^(−H)), R = p; temperature 0: strict",
    source="Medusa 2401.10774, medusa/model/utils.py; R = p is ours (Medusa's fast mode continues with top-1)",
    accept=typical,
    siblings=Siblings.IN_TURN,
    redraw=everywhere,
    parameters=(
        Parameter(
            "epsilon",
            "ε",
            0.09,
            0.0,
            1.0,
            "ε: upper limit of the threshold; 1 with a large δ keeps nothing",
        ),
        Parameter("delta", "δ", 0.3, 0.0, 1000.0, "δ: the threshold is δ·e^(−H)"),
    ),
)
TOPK_DELTA = Rule(
    name="topk-delta",
    title="Top-k, margin δ",
    summary="Keeps any of the target's N best tokens that is not much less probable than the best.",
    formula="keep x iff x = top-1, or x among the N best and p₁ − p(x) ≤ δ, p = softmax(z); else emit top-1",
    source="TensorRT-LLM relaxed acceptance (10 and 0.6 are its example; it is made for temperature 0)",
    accept=topk_delta,
    siblings=Siblings.IN_TURN,
    best_first=True,
    emits_top1=True,
    parameters=(
        Parameter("n", "N", 10, 1, 1000, "N best tokens; 1 is greedy decoding"),
        Parameter(
            "delta", "δ", 0.6, 0.0, 1.0, "δ: maximum distance to the best; 0 is greedy decoding"
        ),
    ),
)
TOPK_RATIO = Rule(
    name="topk-ratio",
    title="Top-k, ratio ρ",
    summary="Keeps any of the target's K best tokens with at least a share ρ of the best token's probability.",
    formula="keep x iff x = top-1, or x among the K best and p(x) ≥ ρ·p₁; else emit top-1",
    source="vLLM pull requests 22238, 43184, 45229 (relaxed thinking; closed, temperature 0 only)",
    accept=topk_ratio,
    siblings=Siblings.IN_TURN,
    best_first=True,
    emits_top1=True,
    parameters=(
        Parameter("n", "N", 3, 1, 1000, "K best tokens; 1 is greedy decoding"),
        Parameter(
            "ratio",
            "ρ",
            0.5,
            0.0,
            1.0,
            "ρ: minimum share of the best token's probability; 1 is greedy decoding",
        ),
    ),
)
THRESHOLD = Rule(
    name="threshold",
    title="Threshold",
    summary="Keeps tokens above a probability threshold, and divides p by a threshold in the test of the others.",
    formula="keep x iff u < Σp/θ_acc over the siblings tried, or p(x) ≥ θ_single (sampled: p/q); temperature 0: p(x) ≥ θ_single or top-1",
    source="SGLang speculative_accept_threshold_single, _acc (there greedy drafts at T > 0 only; 1 and 1 are strict)",
    accept=threshold,
    siblings=Siblings.IN_TURN,
    parameters=(
        Parameter(
            "single",
            "θ single",
            1.0,
            0.0,
            1.0,
            "θ_single: a token this probable is always kept; 1 is strict",
        ),
        Parameter(
            "accumulated", "θ acc", 1.0, 1e-9, 1.0, "θ_acc: divides the summed p; 1 is strict"
        ),
    ),
)
