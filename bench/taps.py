"""``python -m bench.taps``: what it costs to read the target's hidden states, by hooks and by ``output_hidden_states``, in one run.

A step's pass of 6 tokens after a prompt of 64 on the bundled target; the three ways take turns.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from mars_core.model_cache import ModelCache
from mars_core.models import CATALOG, ModelPool

ROUNDS, TOKENS, PROMPT = 300, 6, 64


def main() -> int:
    pair = ModelPool().get(next(spec for spec in CATALOG if spec.key == "bundled"))
    assert pair.head is not None
    taps = pair.head.config.taps
    prompt = torch.arange(3, 3 + PROMPT, device=pair.device)
    block = torch.arange(100, 100 + TOKENS, device=pair.device)
    plain, hooked = ModelCache(pair.target), ModelCache(pair.target, taps)

    def outputs() -> Tensor:
        """As ``hooked``, through the library's own option."""
        found = pair.target(
            input_ids=block[None], past_key_values=plain._cache, use_cache=True, output_hidden_states=True
        )
        plain.length += TOKENS
        return torch.cat([found.hidden_states[tap][0] for tap in taps], -1)

    ways: dict[str, Callable[[], object]] = {
        "no taps": lambda: plain.forward(block),
        "hooks": lambda: hooked.forward(block),
        "output_hidden_states": outputs,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with torch.inference_mode():
        for cache in (plain, hooked):
            cache.forward(prompt)
        for _ in range(ROUNDS):
            for name in random.sample(list(ways), len(ways)):
                started = time.perf_counter()
                ways[name]()
                seconds[name].append(time.perf_counter() - started)
                for cache in (plain, hooked):
                    cache.keep(PROMPT)
    base = median(seconds["no taps"])
    for name, times in seconds.items():
        sys.stdout.write(f"{name:24}{1000 * median(times):8.3f} ms {median(times) / base:6.3f}×\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
