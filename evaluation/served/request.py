"""What a server is asked for a run."""

from __future__ import annotations

from typing import Any

from mars_core.types import Processors, RunConfig

_FIELDS = ("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


def request_of(config: RunConfig) -> dict[str, Any]:
    """Return the arguments of ``Client.stream``. Raises ValueError for what no server can be
    asked."""
    sampling = config.sampling
    return {
        "prompt": _prompt(config),
        "model": config.target.name,
        "max_tokens": config.max_new_tokens,
        "seed": config.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop": config.prompt.stop,
        **_processors(sampling.processors),
        **_thinking(config),
        **_structure(config),
    }


def _processors(chosen: Processors) -> dict[str, float]:
    """Return the fields of processors, also of those that are off: else vLLM takes those of the
    model's generation_config.json. Raises ValueError for one that servers do not have."""
    changed = {name: value for name, value in chosen.chosen.items() if name != "protect"}
    if other := changed.keys() - {*_FIELDS}:
        raise ValueError(f"{min(other)} is set, which a server cannot be asked for.")
    return {"min_p": chosen.min_p, "repetition_penalty": chosen.repetition_penalty} | changed


def _prompt(config: RunConfig) -> str | list[dict[str, str]]:
    from mars_core.text.prompting import (
        joined,
        messages_of,
    )  # imported here because it loads transformers

    messages = messages_of(config.prompt)
    return messages if config.prompt.chat else joined(messages)


def _structure(config: RunConfig) -> dict[str, Any]:
    from mars_core.text.structure import structure_of

    fields = structure_of(config.prompt.structure)
    if fields and not config.prompt.chat:
        raise ValueError(
            "structure is set, but a server takes tools and response_format in a chat only."
        )
    return fields


def _thinking(config: RunConfig) -> dict[str, Any]:
    """Return the switch of the chat template, in vLLM's field. Raises ValueError without a
    template."""
    thinking = config.prompt.thinking
    if thinking is not None and not config.prompt.chat:
        raise ValueError(
            "thinking is set, but no chat template is used; it must be left at the model's default."
        )
    return {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
