"""Texts that a target writes itself: a user's turn, then its answer, with the hidden states that a
head learns from.

Nothing but the target is needed: from its chat template up to the user's first word it writes what
a user might ask (sampled), and answers it (mostly greedily). Half of the turns begin with a few
prescribed words, some ask about texts written before, so that long prompts are learnt too. All rows
of a batch advance one token a step, each at its position.

Shapes: B rows, L positions of the cache, W values of a position (the tapped layers' inputs and the
last hidden state).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel, PreTrainedTokenizerFast

_OPENINGS = (
    "Write a Python function",
    "Write a function that",
    "def ",
    "class ",
    "import ",
    "Fix this code:\n",
    "What does this code do?\n",
    "Write a SQL query",
    "Write a program",
    "How many ",
    "How much ",
    "A shop sells ",
    "A bus ",
    "Two friends ",
    "Lena has ",
    "If ",
    "Solve ",
    "Calculate ",
    "Compute ",
    "Find ",
    "What is ",
    "What are ",
    "Who ",
    "When ",
    "Where ",
    "Why ",
    "Which ",
    "How do ",
    "How does ",
    "How can I ",
    "Is it true that ",
    "Explain ",
    "Describe ",
    "Compare ",
    "Define ",
    "List ",
    "Name ",
    "Give me ",
    "Give three ",
    "Suggest ",
    "Write a story ",
    "Write a poem ",
    "Write an email ",
    "Write a letter ",
    "Write an essay ",
    "Compose ",
    "Create ",
    "Design ",
    "Plan ",
    "Translate ",
    "Rewrite ",
    "Correct ",
    "Improve ",
    "Classify ",
    "Convert ",
    "Imagine ",
    "You are ",
    "Act as ",
    "Tell me ",
    "Help me ",
    "I want ",
    "I have ",
    "Please ",
    "Can you ",
    "Read the text below",
)
_ABOUT = (
    "Summarize the following text:\n\n",
    "Write a summary of this article in two sentences.\n\n",
    "What is this text about?\n\n",
    "Rewrite the text below in simpler words:\n\n",
    "Answer a question about the following text.\n\n",
    "",
)
_QUESTION = 48  # tokens that may follow the prescribed ones
_MARK = "\ue000"  # stands for the user's words in the template


@dataclass(frozen=True, slots=True)
class Synthesis:
    """How texts are written. ``long_share``: of the texts that ask about earlier ones, in rows of
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


@dataclass(slots=True)
class _Row:
    ids: list[int]
    forced: list[int]  # tokens that come next instead of drawn ones, last first
    limit: int  # tokens of the user's turn
    greedy: bool
    start: int = 0  # of the answer; 0 while the user's turn is written


class TextWriter:
    """Writes samples without end. ``target`` is used in evaluation mode, its linear layers packed;
    ``feature_layers`` as in HeadConfig."""

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
        self._openings = [self._encode(text.rstrip(" ")) for text in _OPENINGS]
        self._about = [self._encode(text) for text in _ABOUT]
        self._earlier: list[list[int]] = []  # answers, newest last
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

    def samples(
        self, tokens: int, note: Callable[[int], None] = lambda _written: None
    ) -> Iterator[TextSample]:
        """Samples of about ``tokens`` tokens together, the long ones last; unfinished texts go on
        in the next call. ``note`` gets the tokens written so far."""
        written = 0
        for stream, until in zip(
            self._streams, (tokens * (1 - self._how.long_share), tokens), strict=True
        ):
            while written < until:
                sample = next(stream)
                written += len(sample.ids) - self.prefix
                note(written)
                yield sample

    def _stream(self, length: int, long: bool) -> Iterator[TextSample]:
        """Every row starts anew when its text has ended."""
        count = max(1, self._how.cells // length)
        cache = _RowCache(count, length)
        width = (len(self._feature_layers) + 1) * self._target.config.hidden_size
        values = torch.zeros(
            count, length, width, dtype=self._target.dtype, device=self._target.device
        )
        for position, token in enumerate(self._prefix):
            first = self._step([token] * count, [position] * count, cache, values)
        rows, logits = [self._row(length, long) for _ in range(count)], first
        while True:
            drawn = self._draw(logits, rows)
            for number, row in enumerate(rows):
                self._append(row, row.forced.pop() if row.forced else drawn[number])
                if self._ended(row, length):
                    if row.start:
                        yield self._finished(row, values[number])
                    rows[number] = row = self._row(length, long)
                    row.ids.append(
                        row.forced.pop() if row.forced else self._draw(first[:1], [row])[0]
                    )
            logits = self._step(
                [row.ids[-1] for row in rows], [len(row.ids) - 1 for row in rows], cache, values
            )

    def _row(self, length: int, long: bool) -> _Row:
        forced: list[int] = []
        if long and len(self._earlier) >= 64:
            texts = self._rng.sample(self._earlier, self._rng.randint(2, 5))
            forced = [*self._rng.choice(self._about), *(token for text in texts for token in text)]
        elif self._rng.random() < self._how.opened_share:
            forced = self._rng.choice(self._openings)
        room = length - self.prefix - len(self._turn) - self._how.answer_tokens
        return _Row(
            ids=list(self._prefix),
            forced=forced[:room][::-1],
            limit=max(1, min(room, max(self._how.user_tokens, len(forced) + _QUESTION))),
            greedy=self._rng.random() < self._how.greedy_share,
        )

    def _append(self, row: _Row, token: int) -> None:
        """A user's turn ends with the target's end token or at its limit; the template's words
        up to the answer follow."""
        if not row.start and (token in self._ends or len(row.ids) - self.prefix >= row.limit):
            row.start = len(row.ids) + len(self._turn)
            token, *rest = self._turn
            row.forced = rest[::-1]
        row.ids.append(token)

    def _ended(self, row: _Row, length: int) -> bool:
        answer = len(row.ids) - row.start if row.start else 0
        return len(row.ids) >= length or (
            answer > 0 and (row.ids[-1] in self._ends or answer >= self._how.answer_tokens)
        )

    def _finished(self, row: _Row, values: Tensor) -> TextSample:
        answer = row.ids[row.start : -1]
        if len(answer) >= 32:
            self._earlier = [*self._earlier[-511:], answer]
        return TextSample(torch.tensor(row.ids), row.start, values[: len(row.ids) - 1].clone())

    def _draw(self, logits: Tensor, rows: list[_Row]) -> list[int]:
        """logits [B, V] → a token a row: greedily, or from the top k and of these the top p."""
        how, like = self._how, logits
        answers = [bool(row.start) for row in rows]
        heat = torch.tensor(
            [how.temperature if answer else 1.0 for answer in answers], device=like.device
        )
        greedy = torch.tensor(
            [answer and row.greedy for answer, row in zip(answers, rows, strict=True)],
            device=like.device,
        )
        best, ids = logits.topk(min(how.top_k, logits.shape[-1]))
        chances = (best.float() / heat[:, None]).softmax(-1)
        chances = chances.masked_fill(chances.cumsum(-1) - chances > how.top_p, 0)
        choice = torch.multinomial(chances, 1, generator=self._dice).masked_fill(greedy[:, None], 0)
        drawn: list[int] = ids.gather(1, choice)[:, 0].tolist()
        return drawn

    @torch.inference_mode()
    def _step(self, ids: list[int], places: list[int], cache: _RowCache, values: Tensor) -> Tensor:
        """One token a row → logits [B, V]; the values of the pass go to ``values``."""
        device = self._target.device
        at = torch.tensor(places, device=device)
        mask = cache.move(at)
        output: Any = self._target(
            input_ids=torch.tensor(ids, device=device)[:, None],
            position_ids=at[:, None],
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=True,
        )
        states = [output.hidden_states[tap] for tap in (*self._feature_layers, -1)]
        values[cache.rows, at] = torch.cat(states, -1)[:, 0]
        logits: Tensor = output.logits[:, 0]
        return logits


@dataclass(slots=True)
class _RowCache:
    """Keys and values [B, heads, L, d] of each layer, of rows that stand at positions of their
    own."""

    count: int
    length: int
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    is_compileable: bool = False
    at: Tensor = field(default_factory=lambda: torch.zeros(0))
    rows: Tensor = field(default_factory=lambda: torch.zeros(0))

    def move(self, at: Tensor) -> Tensor:
        """Rows are now at positions ``at`` [B] → which positions they see [B, 1, 1, L]."""
        self.at, self.rows = at, torch.arange(self.count, device=at.device)
        return (torch.arange(self.length, device=at.device) <= at[:, None])[:, None, None]

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        if layer not in self.layers:
            heads, size = key.shape[1], key.shape[3]
            self.layers[layer] = tuple(key.new_zeros(2, self.count, heads, self.length, size))
        keys, values = self.layers[layer]
        keys[self.rows, :, self.at] = key[:, :, 0]
        values[self.rows, :, self.at] = value[:, :, 0]
        return keys, values  # whole: a product of a part of each row would copy it

    def get_seq_length(self, _layer: int = 0) -> int:
        return self.length


def _attend(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """query [B, heads, 1, d] over key and value [B, kv, L, d], queries of a key head together: no
    copy of the keys."""
    grouped = query.view(len(query), key.shape[1], -1, query.shape[-1])
    shares = (
        (grouped @ key.transpose(-1, -2))
        .float()
        .mul_(scaling)
        .masked_fill_(~mask, float("-inf"))
        .softmax(-1)
    )
    return (shares.to(value.dtype) @ value).view(len(query), 1, -1, value.shape[-1]), None


ATTENTION = "rows"  # for attn_implementation
AttentionInterface.register(ATTENTION, _attend)


def _frame(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """The template's tokens before the user's words, and those between them and the answer."""
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
