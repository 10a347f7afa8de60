"""Random pairs of any size with a configurable acceptance rate, for measuring speed.

Target and drafter agree because both are a bigram from embedding to output layer. Token x has a
random code of unit length; the output row of a token is the code of the token before it on a first
ring of tokens plus a times that of the token before it on a second ring, so that after x two tokens
are likely, with logits near β and a(x)·β. Every model has the codes in its first channels, for any
width. What its random layers add to the residual stream has root mean square ``noise``, and
``noise`` is also the standard deviation of z/β that follows from it: the larger it is, the more
often two models choose differently.
"""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from bench.cuda.shapes import CONTEXT, ModelShape, Trio
from mars_core.decoder import prepare
from mars_core.eagle3.cache import prepare_head
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models import Pair, custom_pair
from mars_core.types import ModelRef, PromptConfig

PROMPT = 64  # tokens
WORDS = 1024  # words of the tokenizer, or fewer for a smaller vocabulary; texts consist of them
SHARPNESS = 24.0  # β, the logit of the most likely token
RIVAL = (0.5, 1.0)  # a(x) is uniform between these
CODE = 256  # channels, or fewer where a model is narrower
FAINT = 0.01  # scale of the other channels, so that no weight is zero
SELF = 16.0  # the score with which a head's entry attends to itself
SILU_RMS = 0.596  # root mean square of silu(g)·u for independent standard normal g and u


class Codes(NamedTuple):
    """Codes shared by all models of a pair: rows [V, R] of the embedding and of the output
    layer."""

    inputs: Tensor
    outputs: Tensor


def _shared(trio: Trio) -> Codes:
    """Return codes whose rings go through the first ids only: other tokens are always unlikely, so
    texts stay in them."""
    source, closed = torch.Generator().manual_seed(0), _closed(trio)
    rank = min(CODE, *(min(each.hidden, each.kv_heads * each.head_dim) for each in trio))
    inputs = torch.randn(trio.target.vocabulary, rank, generator=source)
    inputs /= inputs.norm(dim=-1, keepdim=True)
    rival = torch.empty(closed, 1).uniform_(*RIVAL, generator=source)
    outputs = FAINT * inputs.roll(1, 0)
    for weight in (torch.ones_like(rival), rival):
        ring = torch.randperm(closed, generator=source)
        outputs[ring.roll(-1)] += (weight * inputs[:closed])[ring]
    return Codes(inputs, outputs)


def coupled_models(
    trio: Trio, noise: float, device: torch.device, dtype: torch.dtype
) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Target and draft as transformers models; deterministic for the same arguments."""
    shared = _shared(trio)
    target = random_model(trio.target, shared, noise, device, dtype, 1)
    return target, random_model(trio.draft, shared, noise, device, dtype, 2)


def coupled_pair(trio: Trio, noise: float, device: torch.device, dtype: torch.dtype) -> Pair:
    """Return the same models, prepared as loaded ones are. Texts do not end before the last
    token."""
    target, draft = coupled_models(trio, noise, device, dtype)
    head = random_head(trio.head, target, _shared(trio), noise, 3)
    for model in (target, draft):
        prepare(model)
    prepare_head(head)
    names = (f"random/{shape.source.rpartition('/')[2]}" for shape in trio)
    target_ref, draft_ref, head_ref = (ModelRef(name, "seed 0") for name in names)
    return Pair(
        spec=custom_pair(target_ref, draft_ref, head_ref),
        target=target,
        draft=draft,
        tokenizer=word_tokenizer(_closed(trio)),
        device=target.device,
        dtype=dtype,
        target_ref=target_ref,
        draft_ref=draft_ref,
        context=CONTEXT,
        eos_ids=frozenset(),
        vocabulary=trio.target.vocabulary,
        graphs=device.type == "cuda",
        head=head,
        head_ref=head_ref,
    )


def word_tokenizer(words: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per word: t1, t2 and so on."""
    vocabulary = {"<unk>": 0} | {f"t{id_}": id_ for id_ in range(1, words)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", clean_up_tokenization_spaces=False
    )


def prompts(count: int) -> list[PromptConfig]:
    draws = map(random.Random, range(count))
    texts = (" ".join(f"t{draw.randrange(1, WORDS)}" for _ in range(PROMPT)) for draw in draws)
    return [PromptConfig(text, chat=False) for text in texts]


def _closed(trio: Trio) -> int:
    return min(WORDS, *(shape.drafted or shape.vocabulary for shape in trio))


@torch.no_grad()
def random_model(
    shape: ModelShape,
    shared: Codes,
    noise: float,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
) -> PreTrainedModel:
    """Return a model initialised in place on the device, without memory in addition to its
    weights."""
    with torch.random.fork_rng(devices=[]), device:
        model: Any = AutoModelForCausalLM.from_config(shape.config(), dtype=dtype)
    fill = _Fill(torch.Generator(device).manual_seed(seed), shared)
    for layer in model.model.layers:
        fill.layer(layer, noise / math.sqrt(shape.layers))
    fill.table(model.model.embed_tokens.weight, shared.inputs, 1.0)
    fill.table(model.lm_head.weight, shared.outputs, _scale(noise, shape.hidden))
    frozen: PreTrainedModel = model.eval().requires_grad_(False)
    return frozen


@torch.no_grad()
def random_head(
    shape: ModelShape, target: PreTrainedModel, shared: Codes, noise: float, seed: int
) -> Eagle3Head:
    """Return a head whose entries attend to themselves and read the code of their token's
    embedding; the codes in the hidden state that is fed back, which are those of the tokens before,
    are removed by the weights of ``hidden_norm``."""
    weight: Tensor = target.lm_head.weight
    count = target.config.num_hidden_layers
    config = HeadConfig(
        layer=shape.config(),
        target_hidden_size=target.config.hidden_size,
        target_vocabulary=shape.vocabulary,
        draft_vocabulary=shape.drafted,
        feature_layers=tuple(sorted((2, count // 2, max(1, count - 3)))),
        norm_before_residual=True,
    )
    with torch.random.fork_rng(devices=[]), weight.device:
        head = Eagle3Head(config).to(weight.dtype)
        head.rotary = LlamaRotaryEmbedding(config.layer)  # its frequencies stay in float32
    head.embed_tokens.weight = target.get_input_embeddings().weight  # type: ignore[assignment]
    fill = _Fill(torch.Generator(weight.device).manual_seed(seed), shared)
    fill.normal(head.fc, 1.0)
    fill.layer(head.layer, noise)
    fill.copying(head, noise)
    fill.table(head.lm_head.weight, shared.outputs[: shape.drafted], _scale(noise, shape.hidden))
    return head.eval().requires_grad_(False)


def _scale(noise: float, hidden: int) -> float:
    """Return the weight that undoes the last norm: the stream is a code of length 1 and noise,
    [H]."""
    return SHARPNESS * math.sqrt(noise**2 + 1 / hidden)


class _Fill:
    """Writes random weights in place, from one source."""

    def __init__(self, source: torch.Generator, shared: Codes) -> None:
        self._source = source
        self._rank = shared.inputs.shape[-1]

    def normal(self, linear: nn.Linear, gain: float) -> None:
        """Maps independent inputs of root mean square 1 to outputs of root mean square ``gain``."""
        linear.weight.normal_(0, gain / math.sqrt(linear.in_features), generator=self._source)

    def layer(self, layer: nn.Module, noise: float) -> None:
        """Fill a layer: its feed-forward block adds ``noise``, attention, which averages, less."""
        gains = {"o_proj": noise, "down_proj": noise / SILU_RMS}
        for name, part in layer.named_modules():
            if isinstance(part, nn.Linear):
                self.normal(part, gains.get(name.rpartition(".")[2], 1.0))

    def table(self, weight: Tensor, rows: Tensor, scale: float) -> None:
        """Write rows [n, R] into the first channels of weight [n, H]."""
        weight.normal_(0, FAINT * scale / math.sqrt(weight.shape[-1]), generator=self._source)
        weight[:, : self._rank] = (scale * rows).to(weight)

    def copying(self, head: Eagle3Head, noise: float) -> None:
        """Attention that copies the code of the entry's token, whose norm is 1 before and the
        root of the width after a norm."""
        layer, rank, width = head.layer, self._rank, head.layer.k_proj.out_features
        root, groups = math.sqrt(layer.o_proj.out_features), layer.q_proj.out_features // width
        rows = torch.eye(width, rank, device=self._source.device)
        # Every query head of a group is as its key head: [key heads · d, R] → [heads · d, R].
        outputs = rows.view(layer.kv_heads, -1, rank).repeat_interleave(groups, 0).view(-1, rank)
        # A head reads d of R channels of a code.
        scale = math.sqrt(SELF * rank / math.sqrt(layer.head_dim))
        written = {layer.q_proj: scale * outputs, layer.k_proj: scale * rows, layer.v_proj: rows}
        for linear, copied in written.items():
            linear.weight.mul_(FAINT)[:, :rank] = (copied / root).to(linear.weight)
        layer.o_proj.weight.mul_(FAINT)[:rank] = outputs.t().to(layer.o_proj.weight) / groups
        layer.hidden_norm.weight.fill_(noise)
        layer.hidden_norm.weight[:rank] = 0
