"""Texts that a target writes itself: a user's turn, then its answer, with the hidden states that a
head learns from.

Nothing but the target is needed: from its chat template up to the user's first word it writes what
a user might write (sampled), and answers it (mostly greedily). Half of the turns begin with a few
prescribed words, some refer to texts written before, so that long prompts are learnt too. All rows
of a batch advance one token a step, each at its position.

Shapes: B rows, L positions of the cache, W values of a position.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from mars_core.capture import Captured
from mars_core.decoder import CacheSize, PassShapes, open_cache
from mars_core.decoder.positions import Rows
from training.head.openings import ABOUT, OPENINGS

_QUESTION = 48  # tokens that may follow the prescribed ones
_MARK = "\ue000"  # stands for the user's words in the template


@dataclass(frozen=True, slots=True)
class Synthesis:
    """How texts are written. ``long_share``: of the texts that refer to earlier ones, in rows of
    their own length."""

    cells: int = 49_152  # rows · positions of a cache
    length: int = 384  # tokens of a text at most
    user_tokens: int = 128  # at most, of a user's turn
    answer_tokens: int = 224
    long_length: int = 1_152
    long_share: float = 0.08  # of the tokens
    opened_share: float = 0.5  # of the user's turns begin with prescribed words
    greedy_share: float = 0.6  # of the answers
    temperature: float = 0.8  # of the others
    top_k: int = 50
    top_p: float = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class TextSample:
    """A text: ids [n], where its answer starts, and the values [n − 1, W] of all tokens but the
    last."""

    ids: Tensor
    start: int
    values: Tensor


@dataclass(frozen=True, slots=True)
class _Begun:
    """A new text: its first tokens, those of the template and prescribed ones; the most tokens of
    the user's turn; whether the answer is greedy."""

    ids: list[int]
    limit: int
    greedy: bool


class _Rows:
    """The texts of B rows, on the device, of at most L tokens: ids [B, L + those of the template's
    turn], −1 where nothing is prescribed or written yet; where the answer starts, 0 while the
    user's turn is written.

    ``run`` is one pass → logits [B, V], which the next one overwrites; on a GPU a replayed graph.
    Before it ``newest`` and ``at`` [B] are the rows' tokens and their positions; it fills ``values``
    [B, L, W] there: the read layers' inputs and the last hidden state."""

    def __init__(
        self,
        target: PreTrainedModel,
        feature_layers: tuple[int, ...],
        count: int,
        length: int,
        turn: list[int],
        ends: list[int],
    ) -> None:
        self.length, device = length, target.device
        self.rows = torch.arange(count, device=device)
        self.newest, self.at, self.limit, self.start = (
            torch.zeros_like(self.rows) for _ in range(4)
        )
        self.ids = torch.full((count, length + len(turn)), -1, device=device)
        self.greedy = torch.zeros(count, dtype=torch.bool, device=device)
        self._turn, self._ends = (
            torch.tensor(part, dtype=torch.long, device=device) for part in (turn, ends)
        )
        self._texts = Rows(range(count), None, self.at)
        size = CacheSize(length, 1, PassShapes(most_rows=count), full_width=True, slots=count)
        self._cache = open_cache(target, size, (*feature_layers, target.config.num_hidden_layers))
        self.values = self._cache.features.new_zeros(count, length, self._cache.features.shape[-1])
        self.run: Callable[[], Tensor] = (
            Captured(self._pass, device).replay if device.type == "cuda" else self._pass
        )

    @torch.inference_mode()
    def _pass(self) -> Tensor:
        logits = self._cache.chains(self.newest[:, None], self._texts, 1)
        self.values[self.rows, self.at] = self._cache.features[:, 0]
        return logits[:, 0]

    def begin(self, rows: Tensor, texts: Sequence[_Begun], prefix: int) -> None:
        """Begin: the passes of the prefix need not be repeated, but its last one, for its
        logits."""
        device = rows.device
        first = pad_sequence([torch.tensor(text.ids) for text in texts], True, -1)
        self.ids[rows] = -1
        self.ids[rows[:, None], torch.arange(first.shape[1], device=device)] = first.to(device)
        self.limit[rows] = torch.tensor([text.limit for text in texts], device=device)
        self.greedy[rows] = torch.tensor([text.greedy for text in texts], device=device)
        self.start[rows], self.at[rows] = 0, prefix - 1
        self.newest[rows] = self.ids[rows, prefix - 1]

    def append(self, drawn: Tensor, prefix: int, most: int) -> Tensor:
        """Append a token a row: the prescribed one, else the drawn one [B]. A user's turn ends with
        the target's end token or at its limit; the template's words up to the answer, of at most
        ``most`` tokens, follow. Returns the rows whose text has ended."""
        at = self.at.add_(1)
        prescribed = self.ids[self.rows, at]
        ids = torch.where(prescribed < 0, drawn, prescribed)
        last = (ids[:, None] == self._ends).any(-1)
        turns = (self.start == 0) & (last | (at - prefix >= self.limit))
        self.ids[self.rows, at] = ids
        columns = at[:, None] + torch.arange(len(self._turn), device=at.device)
        turned = torch.where(turns[:, None], self._turn, self.ids.gather(1, columns))
        self.ids.scatter_(1, columns, turned)
        self.start.copy_(torch.where(turns, at + len(self._turn), self.start))
        self.newest.copy_(turned[:, 0])
        answered = (self.start > 0) & (at >= self.start)
        ended = answered & (last | (at - self.start + 1 >= most))
        return (ended | (at + 1 >= self.length)).nonzero()[:, 0]

    def finished(self, rows: Tensor) -> Iterator[TextSample]:
        lengths, starts = (self.at[rows] + 1).tolist(), self.start[rows].tolist()
        texts = self.ids[rows].cpu()
        for row, ids, length, start in zip(rows.tolist(), texts, lengths, starts, strict=True):
            if start:
                values = self.values[row, : length - 1].clone()
                yield TextSample(ids[:length].clone(), start, values)


class TextWriter:
    """Writes samples without end. ``target`` is prepared for decoding; ``feature_layers`` as in
    HeadConfig."""

    def __init__(
        self,
        target: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        feature_layers: tuple[int, ...],
        how: Synthesis,
        seed: int,
    ) -> None:
        self._target, self._feature_layers, self._how = target, feature_layers, how
        self._rng = random.Random(seed)
        self._dice = torch.Generator(target.device).manual_seed(seed)
        self._encode: Callable[[str], list[int]] = lambda text: tokenizer.encode(
            text, add_special_tokens=False
        )
        self._prefix, self._turn = _frame(tokenizer)
        ends = target.generation_config.eos_token_id if target.generation_config else None
        self._ends = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {
            None
        }
        self._openings = [self._encode(text.rstrip(" ")) for text in OPENINGS]
        self._about = [self._encode(text) for text in ABOUT]
        self._earlier: deque[list[int]] = deque(maxlen=512)  # answers, newest last
        lengths = (
            min(length, target.config.max_position_embeddings)
            for length in (how.length, how.long_length)
        )
        self._streams = [
            self._stream(length, long) for length, long in zip(lengths, (False, True), strict=True)
        ]

    @property
    def prefix(self) -> int:
        """Tokens of the template before the user's first word."""
        return len(self._prefix)

    def samples(self, tokens: int) -> Iterator[TextSample]:
        """Yield samples of about ``tokens`` tokens together, the long ones last; unfinished texts
        go on in the next call."""
        written = 0
        for stream, until in zip(
            self._streams, (tokens * (1 - self._how.long_share), tokens), strict=True
        ):
            while written < until:
                sample = next(stream)
                written += len(sample.ids) - self.prefix
                yield sample

    def _stream(self, length: int, long: bool) -> Iterator[TextSample]:
        """Yield texts; every row starts anew when its text has ended."""
        count = max(1, self._how.cells // length)
        rows = _Rows(
            self._target, self._feature_layers, count, length, self._turn, sorted(self._ends)
        )
        for position, token in enumerate(self._prefix):
            rows.newest.fill_(token)
            rows.at.fill_(position)
            rows.run()
        ended = rows.rows
        while True:
            if len(ended):
                texts = [self._begun(length, long) for _ in range(len(ended))]
                rows.begin(ended, texts, self.prefix)
            drawn = self._draw(rows.run(), rows.start > 0, rows.greedy)
            ended = rows.append(drawn, self.prefix, self._how.answer_tokens)
            for sample in rows.finished(ended) if len(ended) else ():
                answer = sample.ids[sample.start : -1].tolist()
                if len(answer) >= 32:
                    self._earlier.append(answer)
                yield sample

    def _begun(self, length: int, long: bool) -> _Begun:
        first: list[int] = []
        if long and len(self._earlier) >= 64:
            texts = self._rng.sample(self._earlier, self._rng.randint(2, 5))
            first = [*self._rng.choice(self._about), *(token for text in texts for token in text)]
        elif self._rng.random() < self._how.opened_share:
            first = self._rng.choice(self._openings)
        room = length - self.prefix - len(self._turn) - self._how.answer_tokens
        return _Begun(
            ids=[*self._prefix, *first[:room]],
            limit=max(1, min(room, max(self._how.user_tokens, len(first) + _QUESTION))),
            greedy=self._rng.random() < self._how.greedy_share,
        )

    def _draw(self, logits: Tensor, answers: Tensor, greedy: Tensor) -> Tensor:
        """logits [B, V] → a token a row [B]: in answers [B] where ``greedy`` [B] the best, else one
        of the top k and of these the top p."""
        how = self._how
        best, ids = logits.topk(min(how.top_k, logits.shape[-1]))
        heat = torch.where(answers, how.temperature, 1.0)
        chances = (best.float() / heat[:, None]).softmax(-1)
        chances = chances.masked_fill(chances.cumsum(-1) - chances > how.top_p, 0)
        waits = torch.empty_like(chances).exponential_(generator=self._dice)
        choice = (chances / waits).argmax(-1)  # as of multinomial, which waits for a GPU
        return ids.gather(1, choice.masked_fill(answers & greedy, 0)[:, None])[:, 0]


def _frame(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """Return the template's tokens before the user's words, and those between them and the
    answer."""
    if not tokenizer.chat_template:
        start = (
            tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        )
        return [start], tokenizer.encode("\n\n", add_special_tokens=False)
    turn = [{"role": "user", "content": _MARK}]
    text = str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
    before, after = text.split(_MARK)
    first, second = (tokenizer.encode(part, add_special_tokens=False) for part in (before, after))
    return first, second
