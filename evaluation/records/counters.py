"""The text of ``/metrics`` of vLLM or SGLang: the counters of speculative decoding since the server started."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_VLLM, _SGLANG = "vllm:", "sglang:"


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals over all engines of a server; nan, or empty, where it does not report them.

    ``accepted_at[i]``: drafts of which more than i tokens were accepted. ``tau`` and ``acceptance_rate``: SGLang's gauges, of the latest
    batches; tau is tokens per pass, with the bonus token. ``relaxed``: of mars-vllm.
    """

    server: str
    model: str
    prompt_tokens: float
    new_tokens: float
    drafts: float
    drafted: float
    accepted: float
    accepted_at: tuple[float, ...]
    tau: float
    acceptance_rate: float
    relaxed: float


def read_counters(text: str) -> Counters:
    """Raises ValueError for a text that is not in Prometheus' format or reports no speculative decoding."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    places: defaultdict[int, float] = defaultdict(float)
    models: set[str] = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name].append(float(sample.value))
            if sample.name == f"{_VLLM}spec_decode_num_accepted_tokens_per_pos_total":
                places[int(sample.labels.get("position", ""))] += sample.value
            models |= {sample.labels.get("model_name", "")} - {""}

    def total(name: str) -> float:
        return sum(found[name]) if name in found else math.nan

    prefix = _VLLM if any(name.startswith(_VLLM) for name in found) else _SGLANG
    drafts, tau = total(f"{_VLLM}spec_decode_num_drafts_total"), found.get(f"{_SGLANG}spec_accept_length", [math.nan])
    if math.isnan(drafts) and math.isnan(tau[0]):
        raise ValueError("The text has neither vllm:spec_decode_num_drafts_total nor sglang:spec_accept_length.")
    rates = found.get(f"{_SGLANG}spec_accept_rate", [math.nan])
    return Counters(
        server="vLLM" if prefix == _VLLM else "SGLang",
        model=", ".join(sorted(models)),
        prompt_tokens=total(f"{prefix}prompt_tokens_total"),
        new_tokens=total(f"{prefix}generation_tokens_total"),
        drafts=drafts,
        drafted=total(f"{_VLLM}spec_decode_num_draft_tokens_total"),
        accepted=total(f"{_VLLM}spec_decode_num_accepted_tokens_total"),
        accepted_at=tuple(places[place] for place in sorted(places)),
        tau=sum(tau) / len(tau),
        acceptance_rate=sum(rates) / len(rates),
        relaxed=total(f"{_VLLM}mars_relaxed_tokens_total"),
    )
