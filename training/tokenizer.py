"""The bundled pair's tokenizer: byte-level BPE with single digits, trained on the corpus, with a
chat template.

Plain text begins with ``<|begin|>``; the chat template adds it itself.
"""

from __future__ import annotations

from itertools import islice

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from training.demo.corpus import StoryDocument, documents

BEGIN, END, SYSTEM, USER, ASSISTANT = (
    "<|begin|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
)
_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + "
    "message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def train_tokenizer(
    seed: int, samples: int, vocabulary: int, context: int
) -> PreTrainedTokenizerFast:
    """Any text can be encoded (all 256 bytes are in the vocabulary); no token has two digits."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BEGIN, END, SYSTEM, USER, ASSISTANT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (f"{item.request}\n{item.answer}" for item in islice(documents(seed), samples))
    core.train_from_iterator(texts, trainer)
    begin = (BEGIN, core.token_to_id(BEGIN))
    core.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[begin]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        model_max_length=context,
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def split_document(item: StoryDocument) -> tuple[str, str]:
    """Prompt and answer, with special tokens (the same text as by the chat template)."""
    if not item.request:
        return BEGIN, item.answer + END
    system = SYSTEM + item.system if item.system else ""
    return f"{BEGIN}{system}{USER}{item.request}{ASSISTANT}", item.answer + END
