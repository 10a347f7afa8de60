"""What a server is asked for a run."""

from __future__ import annotations

from typing import Any

from mars_core.types import Processors, RunConfig

_FIELDS = ("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


def request_of(config: RunConfig) -> dict[str, Any]:
    """Return the arguments of ``Client.stream``. Raises ValueError for what no server can be
    asked."""
    from mars_core.text.prompting import joined, messages_of  # here: it loads transformers
    from mars_core.text.structure import structure_of

    prompt, sampling = config.prompt, config.sampling
    structure, messages = structure_of(prompt.structure), messages_of(prompt)
    if structure and not prompt.chat:
        raise ValueError(
            "structure is set, but a server takes tools and response_format in a chat only."
        )
    if prompt.thinking is not None:
        if not prompt.chat:
            raise ValueError(
                "thinking is set, but no chat template is used; it must be left at the model's "
                "default."
            )
        structure["chat_template_kwargs"] = {"enable_thinking": prompt.thinking}  # as vLLM has it
    return {
        "prompt": messages if prompt.chat else joined(messages),
        "model": config.target.name,
        "max_tokens": config.max_new_tokens,
        "seed": config.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop": prompt.stop,
        **_processors(sampling.processors),
        **structure,
    }


def _processors(chosen: Processors) -> dict[str, float]:
    """Return the fields of processors, also of those that are off: else vLLM takes those of the
    model's generation_config.json. Raises ValueError for one that servers do not have."""
    changed = {name: value for name, value in chosen.chosen.items() if name != "protect"}
    if other := changed.keys() - {*_FIELDS}:
        raise ValueError(f"{min(other)} is set, which a server cannot be asked for.")
    return {"min_p": chosen.min_p, "repetition_penalty": chosen.repetition_penalty} | changed
