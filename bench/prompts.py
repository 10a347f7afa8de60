"""The prompts of the measurements: held-out problems and story requests of the bundled pair, half of each."""

from __future__ import annotations

from mars_core.demo.corpus import held_out, held_out_requests
from mars_core.types import PromptConfig


def mixed_prompts(count: int) -> list[PromptConfig]:
    problems = [item.question for item in held_out()[: count - count // 2]]
    return [PromptConfig(text) for text in (*problems, *held_out_requests(count // 2))]
