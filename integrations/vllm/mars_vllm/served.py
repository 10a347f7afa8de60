"""What vLLM was started with, as far as it decides what a request specifies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mars_core.rules.base import special_ids
from mars_core.rules.expression import Span, parse

_USUAL = parse("thinking").span


@dataclass(frozen=True, slots=True)
class Served:
    """``default``: the ``mars_*`` arguments of requests that give none; ``traced``: whether a trace
    file is configured; ``special``: ids that are protected by default; ``phase``: thinking by
    vLLM's reasoning config; ``free``: whether grammars begin after it only."""

    default: Mapping[str, Any] = field(default_factory=dict)
    traced: bool = False
    special: frozenset[int] = frozenset()
    phase: Span | None = None
    free: bool = False
    tokenizer: Any = None

    def span(self, scope: str, guarded: bool) -> Span | None:
        """Return the tokens of the thinking phase that the scope reads; of a guarded request they
        must be those before its grammar. Raises ValueError where the scope names tokens that there
        are not."""
        words = parse(scope).span if scope else None
        named = self._named(words) if words else None
        if not guarded:
            return named
        return self.phase if self.free and named in (None, self.phase) else None

    def _named(self, words: tuple[str, str]) -> Span:
        if self.phase and words == _USUAL:
            return self.phase
        ids = [
            self.tokenizer.encode(word, add_special_tokens=False) if self.tokenizer else []
            for word in words
        ]
        if [len(each) for each in ids] != [1, 1] or ids[0] == ids[1]:
            raise ValueError(
                f"mars_scope reads thinking, and {words[0]!r} and {words[1]!r} are not two tokens "
                "of this model; thinking('BEGIN', 'END') names two that are, or "
                "--reasoning-parser."
            )
        return Span(ids[0][0], ids[1][0])


def served(config: Any, default: Mapping[str, Any]) -> Served:
    """Read vLLM's configuration, in any of its processes."""
    from vllm.tokenizers import cached_tokenizer_from_config

    tokenizer = cached_tokenizer_from_config(config.model_config)
    reasoning, grammars = config.reasoning_config, config.structured_outputs_config
    marks = [
        getattr(reasoning, f"{name}_token_ids", None) or []
        for name in ("reasoning_start", "natural_reasoning_end")
    ]
    return Served(
        default,
        bool(os.environ.get("MARS_TRACE")),
        frozenset(special_ids(tokenizer) if tokenizer else ()),
        Span(marks[0][0], marks[1][0]) if [len(each) for each in marks] == [1, 1] else None,
        bool(grammars.reasoning_parser) and not grammars.enable_in_reasoning,
        tokenizer,
    )
