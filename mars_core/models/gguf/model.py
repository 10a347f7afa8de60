"""Builds models from the tensors of GGUF files, one after the other: as the file has them where
there are products for them, or as plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers import modeling_gguf_pytorch_utils as reader

from mars_core.decoder.linear import QuantisedLinear
from mars_core.decoder.quantised.weights import (
    Int4,
    Packed,
    QuantisedEmbedding,
    packed,
)
from mars_core.models.errors import ModelError
from mars_core.models.gguf.describing import header_of
from mars_core.models.gguf.file import Header, Stored
from mars_core.models.gguf.kinds import FORMS, levels_of, numbers_of
from mars_core.models.memory import gigabytes
from mars_core.models.progress import Progress
from mars_core.models.source import SOURCE, label
from mars_core.types import ModelRef

# of transformers' processors of tensors: those that keep the numbers of a row together
_BY_ROWS = (reader.TensorProcessor, reader.LlamaTensorProcessor, reader.Gemma2TensorProcessor)


def read_model(
    folder: Path, config: PreTrainedConfig, name: str, dtype: torch.dtype | None, progress: Progress
) -> PreTrainedModel:
    """Return the model of the file in ``folder``, on the CPU. ``dtype``: of its numbers; None keeps
    quantised weights, with the rest in float32. Raises ModelError."""
    header = header_of(folder / SOURCE, name)
    build: Any = AutoModelForCausalLM.from_config
    with init_empty_weights(include_buffers=False):
        model: PreTrainedModel = build(
            config, dtype=dtype or torch.float32, trust_remote_code=False
        )
    found = _Found(header, model, dtype)
    called = label(ModelRef(name))
    done, size = 0, (folder / SOURCE).stat().st_size
    for tensor, stored in header.tensors.items():
        progress(f"Loading {called}: weights, {gigabytes(done)} of {gigabytes(size)}")
        found.add(tensor)
        done += stored.bytes
    found.install(name)
    model.eval()
    return model


class _Found:
    """The tensors of a file that were read, by their names in the model."""

    def __init__(self, header: Header, model: PreTrainedModel, dtype: torch.dtype | None) -> None:
        self._header, self._model, self._dtype = header, model, dtype
        kind: Any = reader.TENSOR_PROCESSORS.get(header.architecture, reader.TensorProcessor)
        self._processor = kind(config=model.config.to_dict())
        self._names = _names(model, self._processor)
        self._weights: dict[str, Packed | Int4] = {}
        self._numbers: dict[str, Tensor] = {}

    def add(self, tensor: str) -> None:
        """Read one tensor."""
        stored, path = self._header.tensors[tensor], self._names.get(tensor, "")
        owner = self._model.get_submodule(path.rpartition(".")[0]) if path else None
        if (
            type(self._processor) in _BY_ROWS
            and _factor(owner)
            and path.endswith(".weight")
            and len(stored.shape) == 2
        ):
            self._add_rows(tensor, stored, path, table=isinstance(owner, nn.Embedding))
            return
        done = self._processor.process(
            weights=numbers_of(stored.kind, stored.read()).view(stored.shape).numpy(),
            name=tensor,
            tensor_key_mapping=self._names,
            parsed_parameters={"tensors": self._numbers},
        )
        if done.name in self._names:
            numbers = torch.from_numpy(np.ascontiguousarray(done.weights))
            self._numbers[self._names[done.name]] = numbers

    def _add_rows(self, tensor: str, stored: Stored, path: str, *, table: bool) -> None:
        """Read a tensor of which no more than some rows need be in memory as they are in the
        file."""
        order = self._order(tensor, stored)
        form = FORMS.get(stored.kind) if self._dtype is None else None
        if form and (weight := packed(stored.rows, stored.shape[-1], form, table=table)):
            for start, rows in _parts(stored, order):
                weight.fill(start, levels_of(stored.kind, rows))
            self._weights[path] = weight
            return
        numbers = torch.empty(stored.shape, dtype=self._dtype or torch.float32)
        for start, rows in _parts(stored, order):
            numbers[start : start + len(rows)] = numbers_of(stored.kind, rows)
        self._numbers[path] = numbers

    def _order(self, tensor: str, stored: Stored) -> Tensor | None:
        """Return the rows of the file in the model's order; None where that is the same."""
        rows = np.arange(stored.rows)[:, None]
        order = torch.from_numpy(self._processor.process(weights=rows, name=tensor).weights[:, 0])
        return None if torch.equal(order, torch.arange(stored.rows)) else order

    def install(self, name: str) -> None:
        """Put what was read into the model. Raises ModelError where something is missing."""
        model, output = self._model, self._model.get_output_embeddings()
        tied = "output.weight" not in self._header.tensors
        wrong = list[str]()
        for path, module in list(model.named_modules()):
            for leaf, empty in list(module.named_parameters(recurse=False)):
                full = f"{path}.{leaf}"
                if tied and module is output:
                    continue
                if weight := self._weights.get(full):
                    fits = (weight.rows, weight.columns) == tuple(empty.shape)
                else:
                    numbers = self._numbers.pop(full, None)
                    fits = numbers is not None and numbers.shape == empty.shape
                    if numbers is not None and fits:
                        numbers = numbers.to(self._dtype or torch.float32)
                        setattr(module, leaf, nn.Parameter(numbers, requires_grad=False))
                if not fits:
                    wrong.append(full)
        if wrong:
            raise ModelError(
                f"{name} lacks {len(wrong)} of its model's tensors, e.g. {wrong[0]}: fetch it again."
            )
        for path, weight in self._weights.items():
            owner = path.rpartition(".")[0]
            module = model.get_submodule(owner)
            if isinstance(module, nn.Linear):
                model.set_submodule(owner, QuantisedLinear([weight], module.bias))
            elif isinstance(weight, Packed):
                model.set_submodule(owner, QuantisedEmbedding(weight, _factor(module)))
        table = model.get_input_embeddings()
        if tied and isinstance(table, QuantisedEmbedding):
            model.set_output_embeddings(QuantisedLinear([table.table], None))
        elif tied and output is not None:
            output.weight = table.weight


def _factor(module: nn.Module | None) -> float:
    """Return by what plain linear layers and embeddings multiply their numbers; 0 for others."""
    if type(module) in (nn.Linear, nn.Embedding):
        return 1.0
    return float(getattr(module, "scalar_embed_scale", 0))  # of an embedding, as Gemma's


def _names(model: PreTrainedModel, processor: Any) -> Mapping[str, str]:
    """Return the model's names of a file's tensors. Transformers' function builds a table for every
    module within the module that it is given; only that of the decoder may have names of its own,
    as Bloom's has."""
    of: Any = reader.get_gguf_hf_weights_map
    base, prefix = model.base_model, model.base_model_prefix
    whole, inner = (
        SimpleNamespace(config=model.config, state_dict=part.state_dict, named_children=dict)
        for part in (model, base)
    )
    return {**of(inner, processor, qual_name=f"{prefix}."), **of(whole, processor)}


def _parts(stored: Stored, order: Tensor | None) -> Iterator[tuple[int, Tensor]]:
    """Return the rows of ``stored`` some at a time, with their first one's number."""
    whole = None if order is None else stored.read()[order]
    for start, stop in stored.parts():
        yield start, stored.read(start, stop) if whole is None else whole[start:stop]
