"""Tokenizers and vocabularies: their size, the ids that end an answer, and whether two models share
a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import (
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import has_plain_tokenizer
from mars_core.models.source import GGUF, PlannedModel, has_tokenizer
from mars_core.text.prompting import end_of_turn

TokenIds = Mapping[str, int]  # token text → id, as get_vocab() of a tokenizer gives it

ModelPlan = PlannedModel[PreTrainedConfig]  # plan of a model


def read_tokenizer(plan: ModelPlan) -> PreTrainedTokenizerBase:
    """Read the tokenizer of a planned model. Raises ModelError."""
    if not has_tokenizer(plan.folder):
        raise ModelError(
            f"{plan.ref.name} has no tokenizer: save the tokenizer of its family into the same "
            "folder."
        )
    with explained(plan.ref):
        plain = plan.ref.name.endswith(GGUF) and has_plain_tokenizer(plan.folder)
        kind: Any = PreTrainedTokenizerFast if plain else AutoTokenizer
        tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(
            plan.folder, trust_remote_code=False
        )
        return tokenizer


def draftable(
    target: ModelPlan, draft: ModelPlan | None, tokenizer: PreTrainedTokenizerBase
) -> int:
    """Return how many ids may be drafted; ``tokenizer`` is the target's. Raises ModelError if the
    vocabularies of target and draft differ."""
    if draft is None:
        return _size(target.config)
    tokens = read_tokenizer(draft).get_vocab() if has_tokenizer(draft.folder) else None
    names, rows = (target.ref.name, draft.ref.name), (_size(target.config), _size(draft.config))
    return shared_vocabulary(names, tokenizer.get_vocab(), tokens, rows)


def _size(config: PreTrainedConfig) -> int:
    """Return the number of rows of the embedding."""
    return int(config.get_text_config(decoder=True).vocab_size)


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return every id that ends an answer: those of both configurations (one or a list each), the
    tokenizer's, and the chat template's end of turn, without ids outside the vocabulary."""
    configs = (model.generation_config, model.config.get_text_config(decoder=True))
    stored = [getattr(config, "eos_token_id", None) for config in configs]
    ids = [each for ids in stored for each in (ids if isinstance(ids, list | tuple) else [ids])]
    ids += [tokenizer.eos_token_id, end_of_turn(tokenizer)]
    return frozenset(
        index for index in ids if isinstance(index, int) and 0 <= index < _size(model.config)
    )


def shared_vocabulary(
    names: tuple[str, str], target: TokenIds, draft: TokenIds | None, rows: tuple[int, int]
) -> int:
    """Return the number of ids, from 0 on, that may be drafted: tokens of both models with the same
    text. ``names`` and ``rows`` (of the embedding) belong to target and draft. Tokens that only the
    target knows, such as added ones, and those that only the draft has after the target's last are
    never drafted where the other has no row for them. A draft without a tokenizer (None) must have
    as many rows as the target. Raises ModelError, naming both models and the first id that differs.
    """
    if draft is None:
        if rows[0] == rows[1]:
            return rows[0]
        raise ModelError(
            f"{names[1]} has no tokenizer and a vocabulary of {rows[1]}, but {names[0]} has "
            f"{rows[0]}: choose a draft model made for this target."
        )
    ours, theirs = (  # without tokens that have no row: tokenizers from GGUF files may name some
        {index: token for token, index in tokens.items() if index < size}
        for tokens, size in zip((target, draft), rows, strict=True)
    )
    last = max(ours, default=-1)
    for index, second in sorted(theirs.items()):
        first = ours.get(index)
        if index <= last and first != second:
            raise ModelError(
                f"{names[0]} and {names[1]} do not share a vocabulary: id {index} is "
                f"{_quoted(first)} in the first and {_quoted(second)} in the second; choose a "
                "draft model of the target's family."
            )
    return min(last + 1, *rows)


def _quoted(token: str | None) -> str:
    return "not a token" if token is None else repr(token if len(token) <= 40 else token[:39] + "…")
