"""Encodes prompts: chat template, system prompt, invalid characters."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from mars_core.panics import contained
from mars_core.text.structure import stated, structure_of
from mars_core.text.templates import render
from mars_core.types import PromptConfig


@contained()
def encode(tokenizer: PreTrainedTokenizerBase, prompt: PromptConfig) -> list[int]:
    """Token ids of the prompt. With a chat template: system prompt, earlier turns, user turn, and
    the opening of the answer. Without one they are joined by blank lines. Raises ValueError where
    the prompt has no tokens, the template rejects the system prompt, ``structure`` is not valid, or
    ``thinking`` is set and the template has no such switch."""
    messages = messages_of(prompt)
    if not messages[-1]["content"]:
        raise ValueError("The prompt is empty; it needs at least 1 character.")
    template = prompt.chat and bool(tokenizer.chat_template)
    switch = thinking_switch(tokenizer, prompt.thinking, used=template)
    if tools := structure_of(prompt.structure).get("tools"):
        if template and "tools" in str(tokenizer.chat_template):
            switch["tools"] = tools
        else:
            messages[-1]["content"] = clean(f"{stated(tools)}\n\n{messages[-1]['content']}")
    if template:
        try:
            text = clean(render(tokenizer, messages, add_generation_prompt=True, **switch))
        except TemplateError as error:
            raise ValueError(
                f"The chat template of this model refuses the prompt: {error}"
            ) from error
    else:
        text = joined(messages)
    # Without a template, the tokenizer would add it to a text that begins with it a second time.
    begun = template or (tokenizer.bos_token and text.startswith(tokenizer.bos_token))
    ids = [int(token) for token in tokenizer(text, add_special_tokens=not begun)["input_ids"]]
    if not ids:
        raise ValueError("The prompt has no token for this model; it needs at least 1.")
    return ids


def messages_of(prompt: PromptConfig) -> list[dict[str, str]]:
    """Return the conversation as a list of chat messages; the last one is the user's."""
    turns = [
        turn for user, answer in prompt.history for turn in (("user", user), ("assistant", answer))
    ]
    system = [("system", prompt.system)] if prompt.system else []
    return [
        {"role": role, "content": clean(content)}
        for role, content in (*system, *turns, ("user", prompt.text))
    ]


def joined(messages: list[dict[str, str]]) -> str:
    """Return the prompt without a chat template."""
    return "\n\n".join(message["content"] for message in messages if message["content"])


def thinking_switch(
    tokenizer: PreTrainedTokenizerBase, thinking: bool | None, *, used: bool = True
) -> dict[str, Any]:
    """Template variables for ``PromptConfig.thinking``. Raises ValueError if the template has no
    such switch or is not ``used``."""
    if thinking is None:
        return {}
    if not used or "enable_thinking" not in str(tokenizer.chat_template):
        why = (
            "the chat template of this model has no such switch"
            if used
            else "no chat template is used"
        )
        value = "on" if thinking else "off"
        raise ValueError(f"thinking is {value}, but {why}; it must be left at the model's default.")
    return {"enable_thinking": thinking}


def end_of_turn(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Id of the added token, special or not, with which the chat template closes an answer; None
    without a template or such a token."""
    answer = "the answer"
    messages = [
        {"role": "user", "content": "the question"},
        {"role": "assistant", "content": answer},
    ]
    try:
        text = render(tokenizer, messages)
    except TemplateError:
        return None
    rest = text.rpartition(answer)[2].lstrip()
    added = {str(token): number for number, token in tokenizer.added_tokens_decoder.items()}
    return next(
        (added[name] for name in sorted(added, key=len, reverse=True) if rest.startswith(name)),
        None,
    )


def clean(text: str) -> str:
    """Tokenizers take only valid Unicode: surrogate pairs are joined, lone ones become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
