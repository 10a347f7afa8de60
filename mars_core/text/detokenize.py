"""Token ids to text, piece by piece: a character is returned once all its bytes are known."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

_BROKEN = "\ufffd"
# tokens of an unfinished character; in a longer row of them all but the last are invalid bytes
_LONGEST = 8


class Detokenizer:
    """The text of one run. The pieces that ``add`` and ``flush`` return, in order, are the full
    text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._complete = 0  # ids whose text has been returned
        self._context = 0  # decoding starts here, so that spaces between words are preserved
        self._ahead = 0  # characters that were returned of the ids after ``_complete``

    def add(self, token: int) -> str:
        """Return the characters that become complete with this token."""
        self._ids.append(token)
        piece = self._pending()
        if not piece.endswith(_BROKEN):
            return self._take(piece)
        if len(self._ids) - self._complete < _LONGEST:
            return ""
        self._ahead += len(piece) - 1
        return piece[:-1]

    def flush(self) -> str:
        """Return the rest of an incomplete character at the end."""
        return self._take(self._pending())

    def _pending(self) -> str:
        before = self._decode(self._ids[self._context : self._complete])
        return self._decode(self._ids[self._context :])[len(before) + self._ahead :]

    def _take(self, piece: str) -> str:
        if piece:
            self._context, self._complete, self._ahead = self._complete, len(self._ids), 0
        return piece

    def _decode(self, ids: list[int]) -> str:
        return str(
            self._tokenizer.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )


class Pieces(dict[int, str]):
    """The text of single tokens, for labels: with leading spaces, special tokens by name, lone
    bytes as the vocabulary has them. Filled on access; shared by all runs with one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token: int) -> str:
        raw = self._tokenizer.convert_ids_to_tokens(token)
        text = str(
            self._tokenizer.decode(
                [token], skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )
        if raw is None:  # a padded row of the embedding
            text = f"<{token}>"
        elif _BROKEN in text or not text:
            text = str(raw)
        elif str(raw).startswith("▁") and not text.startswith(" "):
            text = " " + text
        self[token] = text
        return text
