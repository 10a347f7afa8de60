"""Logits processors that depend on the text: penalties, repeated n-grams, biases and banned words,
with transformers' meaning and order.

The text stays on the device, so that a captured step needs nothing from the host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mars_core.capture import PinnedBuffer
from mars_core.decoder.positions import Start
from mars_core.panics import contained
from mars_core.text.prompting import clean
from mars_core.types import Processors
from mars_core.verification import Draft

_NONE = 2**62  # an id beyond every vocabulary
_IDS = re.compile(r"\[(0|[1-9]\d{0,8})(, *(0|[1-9]\d{0,8}))*\]")


@contained()
def word_ids(tokenizer: PreTrainedTokenizerBase, word: str) -> list[int]:
    """Return the ids of a word of ``Processors``."""
    return (
        [*json.loads(word)]
        if _IDS.fullmatch(word)
        else tokenizer.encode(clean(word), add_special_tokens=False)
    )


class Processor:
    """For texts of at most ``tokens``. ``rows`` are texts, [N, T] ids: the latest first, _NONE
    before the beginning."""

    prompt = 0  # its length

    def __init__(
        self,
        chosen: Processors,
        tokenizer: PreTrainedTokenizerBase,
        tokens: int,
        device: torch.device,
    ) -> None:
        self._chosen = chosen
        # Of each word: ids before the last, latest first; the last; what is added to its logit
        self._biases: list[tuple[Tensor, int, float]] = []
        for word, value in chosen.logit_bias:
            *before, last = word_ids(tokenizer, word)
            self._biases.append(
                (torch.tensor(before[::-1], dtype=torch.long, device=device), last, value)
            )
            tokens = max(tokens, len(before))
        self._offsets = torch.arange(tokens, device=device)
        self._buffer = PinnedBuffer(tokens + 1, torch.long, device)
        self._prompt, self._text = self._buffer.send([0] * (tokens + 1)).split((1, tokens))

    def load(self, ids: Sequence[int]) -> None:
        """Send the text, prompt and output; asynchronously."""
        self._buffer.send([self.prompt, *ids])

    def row(self, root: Start, *after: Tensor) -> Tensor:
        """Return the text up to position ``root``, and the tokens ``after`` it, [1] each: [1, T]."""
        positions = root - self._offsets
        text = torch.where(positions >= 0, self._text[positions.clamp(min=0)], _NONE)
        return torch.cat([*after[::-1], text])[None, : len(text)]

    def rows(self, root: Start, draft: Draft) -> Tensor:
        """Return the text up to every node of its draft [1, …], through its ancestors, [N + 1, T]."""
        row, x, parents = self.row(root), draft.ids[0, 1:, None], draft.parents.flatten()
        rows = row.expand(draft.size + 1, -1)
        for _ in range(draft.depth):
            rows = torch.cat([row, torch.cat([x, rows[parents, :-1]], -1)])
        return rows

    def apply(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return the processed logits [N, V] after N texts. Ids from V on, which a draft model
        lacks, are passed over."""
        chosen, size, z = self._chosen, logits.shape[-1], logits.clone()
        ids, known = rows.clamp(max=size), rows < _NONE

        def count(marks: Tensor) -> Tensor:
            """Return how many of a text's latest ids are marked, by id: [N, V] from bool [N, ≤ T]."""
            counts = z.new_zeros(len(z), size + 1)
            return counts.scatter_add_(-1, ids[:, : marks.shape[-1]], marks.float())[:, :size]

        for before, last, value in self._biases:
            if last < size:
                z[:, last] += torch.where((rows[:, : len(before)] == before).all(-1), value, 0.0)
        if (penalty := chosen.repetition_penalty) != 1:
            z = torch.where(count(known) > 0, torch.where(z < 0, z * penalty, z / penalty), z)
        if chosen.presence_penalty or chosen.frequency_penalty:
            output = count(self._offsets < known.sum(-1, keepdim=True) - self._prompt)
            z = z - chosen.frequency_penalty * output - chosen.presence_penalty * (output > 0)
        if n := chosen.no_repeat_ngram_size:
            repeats = known[:, n - 1 :]
            for back in range(n - 1):
                repeats = repeats & (
                    rows[:, back + 1 :][:, : repeats.shape[-1]] == rows[:, back : back + 1]
                )
            z = z.masked_fill(count(repeats) > 0, -torch.inf)
        return z
