"""How often strict writes another text than the target alone, and a continued run another than the whole one."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from bench.common.decoding import Ours
from mars_core.types import PromptConfig


@dataclass(slots=True)
class Differences:
    """By method, over ``texts`` texts. ``cpu_s``: processor seconds of the whole runs."""

    strict: Counter[str] = field(default_factory=Counter)
    continued: Counter[str] = field(default_factory=Counter)
    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    texts: int = 0

    def add(
        self, methods: Mapping[str, Ours], prompt: PromptConfig, seed: int, *, continued: Collection[str],
        repeated: str = "",
    ) -> None:  # fmt: skip
        """One text of each method. The first decodes without a draft. ``continued``: methods that write their text once more from its
        middle; ``repeated``: one that starts after a text which repeats its beginning, so that n-grams have something to draft."""
        none = next(iter(methods))
        whole: tuple[int, ...] = ()
        for name, method in methods.items():
            prefix = (*whole[: method.tokens // 3], whole[0]) if name == repeated else ()
            started = time.process_time()
            found = method.ids(prompt, seed, prefix)
            self.cpu_s[name] += time.process_time() - started
            whole = whole or found
            half = len(found) // 2
            self.strict[name] += found != (methods[none].ids(prompt, seed, prefix) if prefix else whole)
            if name in continued:
                self.continued[name] += method.ids(prompt, seed, (*prefix, *found[:half])) != found[half:]
        self.texts += 1
