"""A prompt to token ids: chat template, system prompt, hostile characters. Knows no model."""

from __future__ import annotations

from typing import Any

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from mars_core.types import PromptConfig


def encode(tokenizer: PreTrainedTokenizerBase, prompt: PromptConfig) -> list[int]:
    """Token ids of the prompt. With a chat template: system prompt, earlier turns, user turn, and the opening of the answer.

    Without one they stand one after the other, a blank line between. Raises ValueError where nothing is left to continue
    or the template refuses the system prompt.
    """
    messages = _messages(prompt)
    if not messages[-1]["content"]:
        raise ValueError("The prompt is empty; it needs at least 1 character.")
    if prompt.chat and tokenizer.chat_template:
        ids = _with_template(tokenizer, messages)
    else:
        ids = _plain(tokenizer, "\n\n".join(message["content"] for message in messages if message["content"]))
    if not ids:
        raise ValueError("The prompt has no token for this model; it needs at least 1.")
    return ids


def _messages(prompt: PromptConfig) -> list[dict[str, str]]:
    """The conversation in the form that chat templates take; the last message is the user's."""
    said = [("system", prompt.system)] if prompt.system else []
    for user, answer in prompt.history:
        said += [("user", user), ("assistant", answer)]
    return [{"role": role, "content": _clean(content)} for role, content in (*said, ("user", prompt.text))]


def _plain(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """A text that begins with the token that tokenizers put before a text has it once."""
    begun = tokenizer.bos_token and text.startswith(tokenizer.bos_token)
    return _ids(tokenizer(text, add_special_tokens=not begun))


def _with_template(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]]) -> list[int]:
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
