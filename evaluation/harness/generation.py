"""What a task asks of one answer (lm-eval's ``generation_kwargs``), as sampling, length, stop strings and seed. Runs nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs

from evaluation.harness.options import Refused
from mars_core.types import Sampling

# Arguments of other models that may be given as long as they change nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "use_cache": (True,),
    "early_stopping": (True, False),
}
_KNOWN = "until, do_sample, temperature, top_k, top_p, max_gen_toks"


@dataclass(frozen=True, slots=True)
class Generation:
    """``until``: what ends the answer and does not belong to it, the text of the end token included."""

    sampling: Sampling
    max_new_tokens: int
    until: tuple[str, ...]


def read_generation(given: Mapping[str, Any], eos: str | None, max_new_tokens: int) -> Generation:
    """As lm-eval reads it for its model ``hf``: without ``do_sample`` a temperature above 0 samples; ``do_sample: false`` is greedy.

    Raises Refused for an argument that this engine has not.
    """
    named: dict[str, Any] = dict(normalize_gen_kwargs(dict(given), max_new_tokens))
    until = handle_stop_sequences(named.pop("until"), eos)
    length = int(named.pop("max_gen_toks"))
    samples = bool(named.pop("do_sample"))
    temperature = float(named.pop("temperature", 1.0))
    top_k, top_p = max(0, int(named.pop("top_k", None) or 0)), named.pop("top_p", None)
    for name, value in named.items():
        if value is not None and value not in _NEUTRAL.get(name, ()):
            raise Refused(f"The task asks for {name}={value!r}; the model mars takes {_KNOWN}.")
    sampling = Sampling(temperature, top_k, 1.0 if top_p is None else float(top_p)) if samples else Sampling()
    return Generation(sampling, length, tuple(stop for stop in until if stop))


def seed_of(seed: int, request: Any, repeat: int) -> int:
    """A seed of its own for every answer to an lm-eval Instance: the draws of two documents must not be the same numbers."""
    whose = f"{seed}/{request.task_name}/{request.doc_id}/{request.idx}/{repeat}"
    return int.from_bytes(hashlib.sha256(whose.encode()).digest()[:6], "big")
