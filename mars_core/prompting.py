"""A prompt to token ids: chat template, system prompt, hostile characters. Knows no model."""

from __future__ import annotations

from typing import Any

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from mars_core.types import PromptConfig


def encode(tokenizer: PreTrainedTokenizerBase, prompt: PromptConfig) -> list[int]:
    """Token ids of the prompt. With a chat template: system and user turn, and the opening of the answer.

    Without one the system prompt stands before the text, a blank line between. Raises ValueError where nothing is left
    to continue or the template refuses the system prompt.
    """
    system, text = _clean(prompt.system), _clean(prompt.text)
    if not text:
        raise ValueError("The prompt is empty; it needs at least 1 character.")
    if prompt.chat and tokenizer.chat_template:
        ids = _with_template(tokenizer, system, text)
    else:
        ids = _ids(tokenizer(f"{system}\n\n{text}" if system else text))
    if not ids:
        raise ValueError("The prompt has no token for this model; it needs at least 1.")
    return ids


def _with_template(tokenizer: PreTrainedTokenizerBase, system: str, text: str) -> list[int]:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    try:
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)
    except TemplateError as error:
        raise ValueError(f"The chat template of this model refuses the prompt: {error}") from error
    return _ids(encoded)


def _ids(encoded: Any) -> list[int]:
    return [int(token) for token in encoded["input_ids"]]


def _clean(text: str) -> str:
    """Tokenizers take only valid Unicode: surrogate pairs are joined, lone ones become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
