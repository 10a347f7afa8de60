"""Whether two models speak the same vocabulary, id for id. Knows tokenizers, loads nothing."""

from __future__ import annotations

from collections.abc import Mapping

from mars_core.models.errors import ModelError

TokenIds = Mapping[str, int]  # token text → id, as get_vocab() of a tokenizer gives it


def shared_vocabulary(names: tuple[str, str], target: TokenIds, draft: TokenIds, rows: tuple[int, int]) -> int:
    """How many ids, from 0 on, may be drafted: those that are tokens of both, with the same text.

    ``names`` and ``rows`` (of the embedding) belong to target and draft. Padded rows and tokens that only the target
    knows are fine as long as the draft can embed them; tokens that only the draft has, after the target's last, are
    never drafted. Raises ModelError, naming both models and the first id that differs.
    """
    ours, theirs = _by_id(target), _by_id(draft)
    last = max(ours, default=-1)
    for index in sorted(ours.keys() & theirs.keys()):
        if ours[index] != theirs[index]:
            raise _differs(names, index, ours[index], theirs[index])
    holes = sorted(index for index in theirs.keys() - ours.keys() if index < last)
    if holes:
        raise _differs(names, holes[0], None, theirs[holes[0]])
    beyond = sorted(index for index in ours if index >= rows[1])
    if beyond:
        raise _differs(names, beyond[0], ours[beyond[0]], None)
    return min(last + 1, *rows)


def same_size(names: tuple[str, str], rows: tuple[int, int]) -> int:
    """For a draft without a tokenizer: all that can be compared is ``vocab_size``. Raises ModelError."""
    if rows[0] != rows[1]:
        raise ModelError(
            f"{names[1]} has no tokenizer and a vocabulary of {rows[1]}, but {names[0]} has {rows[0]}: "
            "choose a draft model made for this target."
        )
    return rows[0]


def _by_id(tokens: TokenIds) -> dict[int, str]:
    return {index: token for token, index in tokens.items()}


def _differs(names: tuple[str, str], index: int, ours: str | None, theirs: str | None) -> ModelError:
    def said(token: str | None) -> str:
        return "not a token" if token is None else repr(token if len(token) <= 40 else token[:39] + "…")

    return ModelError(
        f"{names[0]} and {names[1]} do not share a vocabulary: id {index} is {said(ours)} in the first and "
        f"{said(theirs)} in the second; choose a draft model of the target's family."
    )
