"""The terms of the page: one list for the "?" buttons, where a term first appears, and for the
About tab. Every word is ours."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from mars_core.drafting import DRAFTERS
from ui.kit.panel import render

_numbers = count(1)  # for ids: a term may be explained at several places of one page


class Term(NamedTuple):
    """``symbol`` as on the page, its meaning in a few words, and an explanation of one or two
    sentences."""

    symbol: str
    title: str
    text: str


TERMS: Mapping[str, Term] = {
    "step": Term(
        "step",
        "one draft, one check",
        "One draft and one target pass over all of it. The prefill is not a step.",
    ),
    "tau": Term(
        "τ",
        "mean acceptance length",
        "Emitted tokens per step, with the recovered or bonus token. Plain decoding has τ = 1; more means fewer target passes.",
    ),
    "r": Term(
        "r",
        "margin ratio",
        "z₂/z₁, the ratio of the target's two best raw logits; near 1 they nearly tie. Where z₁ ≤ 0 there is no ratio, and the position "
        "counts as decisive.",
    ),
    "theta": Term(
        "θ",
        "margin threshold",
        "Threshold: MARS may relax where r > θ, that is, at temperature 1, from p₂/p₁ > exp(−(1 − θ)·z₁) on: the larger the logits of a "
        "model, the more it keeps. The paper uses 0.9; a smaller θ relaxes more, θ = 1 relaxes nothing.",
    ),
    "gap": Term(
        "gap",
        "logit gap",
        "z₁ − z₂, the difference of the target's two best raw logits; near 0 they nearly tie.",
    ),
    "p": Term(
        "p, q",
        "probabilities",
        "The token's probability under the target (p) and under the drafter (q).",
    ),
    "own": Term(
        "own token",
        "the token that the target samples",
        "The token that the target itself samples at a position, with the noise of this position. Strict writes exactly these.",
    ),
    "noise": Term(
        "noise",
        "of a position",
        "A random number for every token that depends on the seed, the output position and the token only, so all runs use the same ones. "
        "The target takes the token whose ln p plus noise is the largest.",
    ),
    "tv": Term(
        "TV",
        "total variation",
        "Distance from p to the distribution of the emitted token, 0 to 1. Strict and block have 0, which every run checks. On coupled "
        "drafts it is missing where that distribution is not known: in trees, and for rules that may relax any token.",
    ),
    "kl": Term(
        "KL",
        "Kullback–Leibler divergence",
        "KL(P‖p) in nats. ∞ where P may emit what p excludes: at temperature 0, p excludes every token but one.",
    ),
    "likelihood": Term(
        "log-likelihood, perplexity",
        "of the text under the target",
        "The sum of ln softmax(z) over the tokens of the text, at temperature 1 and unfiltered; perplexity is exp(−mean).",
    ),
    "entropy": Term(
        "entropy",
        "of p",
        "Uncertainty of the target at a position, in nats; 0 where one token has all the probability.",
    ),
    "rank": Term(
        "rank",
        "place in p",
        "Place of the token among all, by the target's probability; 1 is the likeliest.",
    ),
    "k": Term(
        "K",
        "drafted tokens",
        "How many tokens the drafter proposes in a step. A draft tree has its own size in place of K.",
    ),
    "draft_tree": Term(
        "draft tree",
        "several drafts at once",
        "With an EAGLE-3 head, a step drafts several continuations: the likeliest nodes of every depth are extended, and the best of "
        "all are checked in one pass. Depth counts from 1; one path at most becomes text.",
    ),
    "draft_mode": Term(
        "draft mode",
        "how drafts are picked",
        "Coupled drafts are drawn from q with the noise that draws the target's own token, so that the two mostly agree. Greedy drafts are "
        "the drafter's likeliest tokens, the paper's setting. Sampled drafts are drawn from q with other noise.",
    ),
    "acceptance_rate": Term(
        "acceptance rate", "kept share of drafts", "Kept drafted tokens / drafted tokens."
    ),
    "relaxed_share": Term(
        "relaxed share",
        "relaxed share of the text",
        "Tokens that the rule keeps and strict rejects / new tokens.",
    ),
    "ttft": Term("TTFT", "time to first token", "Prefill and the first step."),
    "tokens_per_s": Term(
        "tokens/s",
        "speed",
        "New tokens / total latency, from the prompt's first token to the last new one.",
    ),
    "divergence": Term(
        "first divergence",
        "where two texts first differ",
        "The first output position at which two runs have different tokens. Its cause is named: relaxed, tightened, redrawn, numeric, "
        "chosen, length, or unknown (of a served model).",
    ),
    "seed": Term(
        "seed",
        "start of the randomness",
        "The noise of every output position follows from it. The same seed, models and settings give the same text again.",
    ),
    "temperature": Term(
        "temperature",
        "of the target",
        "0 always takes the likeliest token (greedy); 1 samples from the target's own probabilities.",
    ),
    "rule": Term(
        "rule",
        "verification rule",
        "Decides which drafted tokens are kept. Strict keeps what the target itself would have written.",
    ),
    "drafter": Term(
        "drafter",
        "what proposes tokens",
        f"Where drafts come from: {', '.join(each.title for each in DRAFTERS.values())}.",
    ),
    "target": Term(
        "target",
        "the large model",
        "The model whose text is wanted. It checks every draft in one forward pass.",
    ),
}


def help_html(key: str) -> str:
    """A "?" button that opens the explanation of ``TERMS[key]`` without a script; a new id at every
    call. Raises KeyError."""
    card = f"mars-help-{key.replace('_', '-')}-{next(_numbers)}"
    return render("kit/templates/help.html.jinja", term=TERMS[key], card=card)
