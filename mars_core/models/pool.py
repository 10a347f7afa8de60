"""The models in memory: loaded on demand and freed, least recently used first, when memory is
short.

Built once by app.py or the command line and passed down. A pair with other references stays in
memory until they are released, so sessions must not live longer than their runs.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from mars_core.lazy import torch
from mars_core.margins import Margins
from mars_core.models.catalog import CUSTOM, PairSpec
from mars_core.models.errors import ModelError
from mars_core.models.memory import (
    FLOAT32_BYTES,
    MemoryFit,
    bytes_each,
    dtype_name,
    free_bytes,
    gigabytes,
    host_free_bytes,
    may_have_gpu,
    pick_device,
    pick_dtype,
)
from mars_core.models.progress import Progress
from mars_core.panics import contained
from mars_core.text.templates import prepare
from mars_core.types import ModelRef

if TYPE_CHECKING:
    from mars_core.models.loading import Pair

_Key = tuple[ModelRef | None, ...]


class ModelPool:
    """Pairs on one device. One of the user's models is freed once another pair is used. ``device``:
    auto, cpu, cuda, cuda:N; ``dtype``: auto, float32, bfloat16, float16, gguf. ``graphs``: record
    steps as CUDA graphs; not where every run is a process of its own (ZeroGPU). ``kernels``:
    whether ``decoder.kernels`` are tried, by default where steps are captured. Loading is serialised
    by a lock; ``fits`` and ``loaded`` never wait for it."""

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_pairs: int = 2,
        graphs: bool = True,
        kernels: bool | None = None,
    ) -> None:
        if max_pairs < 1:
            raise ValueError(f"max_pairs is {max_pairs}; it must be at least 1.")
        self._wanted = (device, dtype)
        self._max_pairs = max_pairs
        self._graphs, self._kernels = graphs, kernels
        self._pairs: OrderedDict[_Key, Pair] = OrderedDict()  # least recently used first
        self.ran: set[PairSpec] = set()  # pairs with a completed run in this process
        self._lock = Lock()
        if (device, dtype) != (
            "auto",
            "auto",
        ):  # raises for a wrong name; with auto torch is imported later
            self.dtype  # noqa: B018

    @cached_property
    def device(self) -> torch.device:
        return pick_device(self._wanted[0])

    @cached_property
    def dtype(self) -> torch.dtype:
        return pick_dtype(self._wanted[1], self.device)

    @property
    def numbers(self) -> str:
        """The dtype in words: ``auto`` on a CPU chooses one for each pair when it is loaded."""
        return "number format chosen by model" if self._by_model else dtype_name(self.dtype)

    @property
    def _by_model(self) -> bool:
        return self.device.type == "cpu" and self._wanted[1] == "auto"

    def get(self, spec: PairSpec, progress: Progress = lambda _message: None) -> Pair:
        """Return the pair, loaded if necessary; may free others. Raises ModelError."""
        key = (spec.target, spec.draft, spec.head, spec.classifier)
        with self._lock, contained():
            if key not in self._pairs:
                self._pairs[key] = self._load(spec, progress)
            else:
                self._free_own(key, progress)
                self._pairs.move_to_end(key)
            return self._pairs[key]

    def fits(self, spec: PairSpec, *, kept: bool = False) -> MemoryFit:
        """Memory needed and available, with pairs that can be freed counted as free. ``kept``: a CPU
        may leave the weights as their files have them. Imports torch only where there may be a GPU
        or a device was named."""
        if not self._pairs and self._wanted == ("auto", "auto") and not may_have_gpu():
            each = 1 if kept else FLOAT32_BYTES
            return MemoryFit(spec.memory_bytes(each), host_free_bytes(), "cpu")
        models = [
            model
            for pair in list(self._pairs.values())
            for model in (pair.target, pair.draft, pair.head)
            if model
        ]
        reclaimable = sum(tensor.nbytes for model in models for tensor in model.parameters())
        available = free_bytes(self.device) + reclaimable
        each = 1 if kept and self._by_model else bytes_each(self.dtype)
        return MemoryFit(spec.memory_bytes(each), available, str(self.device))

    def margins(self, spec: PairSpec) -> Margins:
        """Return those of the pair's target; empty where it is not in memory."""
        pairs = list(self._pairs.values())
        return next(
            (
                each.margins
                for each in pairs
                if (each.spec.target, each.spec.text) == (spec.target, spec.text)
            ),
            (),
        )

    def loaded(self) -> tuple[PairSpec, ...]:
        """Return the pairs in memory, least recently used first."""
        return tuple(pair.spec for pair in list(self._pairs.values()))

    def clear(self) -> None:
        """Frees every pair."""
        with self._lock:
            self._pairs.clear()
            collect()

    def _load(self, spec: PairSpec, progress: Progress) -> Pair:
        progress("Loading torch and transformers")
        prepare()
        from mars_core.models.loading import (
            load,
            plan,
            suited,
        )  # here, because it imports transformers' models

        plans = plan(spec, progress)
        dtype = suited(plans.target) if self._by_model else self.dtype
        self._free_memory(
            plans.target.ref.name, dtype, sum(each.bytes(dtype) for each in plans if each), progress
        )
        return load(spec, plans, self.device, dtype, self._graphs, progress, self._kernels)

    def _free_memory(self, name: str, dtype: torch.dtype, needed: int, progress: Progress) -> None:
        """Frees pairs until this one fits and their number allows one more. Raises ModelError if it
        never fits."""
        self._free_own((), progress)
        while self._pairs and (
            len(self._pairs) >= self._max_pairs or needed > free_bytes(self.device)
        ):
            self._free(next(iter(self._pairs)), progress)
        available = free_bytes(self.device)
        if needed > available:
            raise ModelError(
                f"{name} needs about {gigabytes(needed)} with its drafters in "
                f"{dtype_name(dtype)}, and {gigabytes(available)} are free here: "
                "choose a smaller pair or a smaller dtype."
            )

    def _free_own(self, besides: _Key, progress: Progress) -> None:
        """Frees the pairs that nobody can come back to by a name of the catalog."""
        for key in [key for key, pair in self._pairs.items() if pair.spec.key == CUSTOM]:
            if key != besides:
                self._free(key, progress)

    def _free(self, key: _Key, progress: Progress) -> None:
        progress(f"Freeing {self._pairs.pop(key).spec.title}")
        collect()


def collect() -> None:
    """Frees the memory of unreferenced models."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
