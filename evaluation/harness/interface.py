"""What lm-eval asks of any model: arguments, tokenizer and metadata of the results."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import jinja2
import torch
from lm_eval.api.model import TemplateLM
from lm_eval.utils import simple_parse_args_string

from evaluation.harness.options import Extras, OptionError, refused
from evaluation.harness.telemetry import Telemetry, pooled
from mars_core.drafting import Limit
from mars_core.models import Pair
from mars_core.settings import Settings
from mars_core.text.prompting import encode, thinking_switch
from mars_core.text.templates import render
from mars_core.types import PromptConfig

_ONLY_ANSWERS = (
    "The model mars generates answers and does not compute log-likelihoods, which verification "
    "rules do not change: use a task with output_type generate_until, or lm-eval's model hf."
)


class LmEvalModel(TemplateLM):  # type: ignore[misc]  # lm-eval ships no types
    pair: Pair
    tokenizer: Any
    options: Extras
    telemetry: Telemetry
    _settings: Settings
    _limit: Limit

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> Self:
        """Create the model from lm-eval's ``--model_args`` and its other options. ``--model_args``
        take precedence, because lm-eval always sets a device."""
        beside = {
            name: value for name, value in (additional_config or {}).items() if value is not None
        }
        if not torch.cuda.is_available() and str(beside.get("device")).startswith("cuda"):
            del beside["device"]
        return cls(**beside | arg_dict)

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> Self:
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @property
    def _eos(self) -> str | None:
        return None if self.eot_token_id is None else str(self.tokenizer.decode(self.eot_token_id))

    @property
    def eot_token_id(self) -> int | None:
        token: int | None = self.tokenizer.eos_token_id
        return token

    @property
    def max_length(self) -> int:
        """Tokens of prompt and answer together."""
        return min(self._limit.tokens, self.options.max_length or self._limit.tokens)

    @property
    def max_gen_toks(self) -> int:
        return self._settings.max_new_tokens

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Return the conversation formatted by the chat template, without the system prompt if the
        template does not support one."""
        if not self.tokenizer.chat_template:
            raise OptionError(
                f"{self.pair.target_ref.name} has no chat template; leave out "
                "--apply_chat_template."
            )
        with refused():
            options: dict[str, Any] = thinking_switch(self.tokenizer, self.options.enable_thinking)
        options |= {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
        }
        try:
            return render(self.tokenizer, chat_history, **options)
        except jinja2.TemplateError:
            rest = [message for message in chat_history if message["role"] != "system"]
            return render(self.tokenizer, rest, **options)

    def get_model_info(self) -> dict[str, Any]:
        """Return what is for the ``config`` of lm-eval's results; ``mars`` has the telemetry of all
        answers, pooled."""
        return {
            "model_num_parameters": self.pair.target.num_parameters(),
            "model_dtype": str(self.pair.dtype),
            "model_revision": self.pair.target_ref.revision or "",
            "model_sha": self.pair.target_ref.revision or "",
            "mars": {"device": str(self.device), **pooled(self.telemetry)},
        }

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **_kwargs: Any
    ) -> list[int]:
        if add_special_tokens is None:
            return encode(self.tokenizer, PromptConfig(string, chat=False))
        return list(self.tokenizer.encode(string, add_special_tokens=add_special_tokens))

    def _loglikelihood_tokens(self, _requests: Any, **_kwargs: Any) -> NoReturn:
        raise OptionError(_ONLY_ANSWERS)

    loglikelihood = loglikelihood_rolling = _loglikelihood_tokens
