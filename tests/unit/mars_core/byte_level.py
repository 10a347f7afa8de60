"""A tokenizer whose tokens are single bytes, so that most characters are split over several."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

BYTES = 256


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and ``<|end|>``, which has the highest id, BYTES."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(
        models.BPE({token: index for index, token in enumerate([*alphabet, "<|end|>"])}, [])
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|end|>", clean_up_tokenization_spaces=False
    )
