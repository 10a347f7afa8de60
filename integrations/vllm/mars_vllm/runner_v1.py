"""Runner V1: methods of vLLM are wrapped, since it refuses custom logits processors together with
speculative decoding.

The rule is judged on the raw logits that ``apply_logits_processors`` receives; rows are forced at
the entry of ``rejection_sample``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mars_vllm.arguments import RequestRule
from mars_vllm.judging import Best, entry, force, relaxed, two_best
from mars_vllm.signatures import check
from mars_vllm.tracing import JudgedStep, TracedEngine


class _Step:
    """The drafted tokens of one step, and the decision on them."""

    def __init__(self, rules: Sequence[RequestRule | None], metadata: Any) -> None:
        from vllm.utils.torch_utils import async_tensor_h2d

        self.groups = sorted({wanted.group for wanted in rules if wanted})
        self.counts: list[int] = metadata.num_draft_tokens
        self.drafted: Tensor = metadata.draft_token_ids.long()
        width = metadata.max_spec_len + 1
        entries = [entry(wanted, self.groups) for wanted in rules]
        rows = [
            (*entries[i], i * width + position)
            for i, count in enumerate(self.counts)
            for position in range(count)
        ]
        self.table = async_tensor_h2d(
            rows, self.drafted.device, torch.float64
        )  # the last column: output position
        self.best = Best(self.drafted, self.drafted)
        self.relaxed: Tensor = self.drafted < 0

    def judge(self, raw: Tensor) -> None:
        """Judge on raw logits, float32 [P, V]."""
        self.best = two_best(raw)
        self.relaxed = relaxed(self.groups, False, self.table, raw, self.best, self.drafted)

    def force(self, processed: Tensor) -> Tensor:
        """Force on the logits that vLLM draws from, float32 [P, V]; changes and returns them."""
        if any(group.tempered for group in self.groups):
            self.relaxed |= relaxed(
                self.groups, True, self.table, processed, self.best, self.drafted
            )
        return force(processed, self.drafted, self.relaxed)

    def accepted(self, sampled: Tensor) -> Tensor:
        """bool [P]: which relaxed tokens are in the output, int32 [batch, width]; after a rejection
        it has −1."""
        return self.relaxed & torch.eq(sampled.flatten()[self.table[:, -1].long()], self.drafted)


_current: list[_Step] = []  # the step that is being sampled, if any of its requests has a rule


def install() -> None:
    """Wraps the rejection sampler; the runner itself once it makes one. Raises RuntimeError on
    unknown signatures."""
    import vllm.v1.sample.rejection_sampler as module
    from vllm.config import get_current_vllm_config

    check("vllm.v1.sample.rejection_sampler")
    sampler = module.RejectionSampler
    init, processors, sample = (
        sampler.__init__,
        sampler.apply_logits_processors,
        module.rejection_sample,
    )

    @functools.wraps(init)
    def wrapped_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.mars = TracedEngine(get_current_vllm_config(), "V1")
        _install_runner(sys.modules["vllm.v1.worker.gpu_model_runner"].GPUModelRunner)

    @functools.wraps(processors)
    def wrapped_processors(self: Any, logits: Tensor, sampling_metadata: Any, metadata: Any) -> Any:
        if _current:
            _current[0].judge(logits)
        return processors(self, logits, sampling_metadata, metadata)

    @functools.wraps(sample)
    def wrapped_sample(*args: Any, **kwargs: Any) -> Any:
        if _current:  # the sixth argument is target_logits
            args = (*args[:5], _current[0].force(args[5]), *args[6:])
        return sample(*args, **kwargs)

    sampler.__init__, sampler.apply_logits_processors = wrapped_init, wrapped_processors
    module.rejection_sample = wrapped_sample


def _install_runner(runner: Any) -> None:
    if getattr(runner, "_mars", False):
        return
    check("vllm.v1.worker.gpu_model_runner")
    runner._mars = True
    update, sample = runner._update_states, runner._sample

    @functools.wraps(update)
    def wrapped_update(self: Any, scheduler_output: Any) -> Any:
        if engine := _engine(self):
            engine.finish(scheduler_output.finished_req_ids)
            for request in scheduler_output.finished_req_ids:
                vars(self).get("_mars_rules", {}).pop(request, None)
        return update(self, scheduler_output)

    @functools.wraps(sample)
    def wrapped_sample(self: Any, logits: Tensor | None, spec_decode_metadata: Any) -> Any:
        engine = _engine(self)
        rules = _rules_of(engine, self) if engine else []
        if not any(rules):
            return sample(self, logits, spec_decode_metadata)
        if spec_decode_metadata is not None and any(spec_decode_metadata.num_draft_tokens):
            _current.append(_Step(rules, spec_decode_metadata))
        try:
            output = sample(self, logits, spec_decode_metadata)
        finally:
            step = _current.pop() if _current else None
        if engine and engine.writes:
            _record(engine, self, rules, step, output.sampled_token_ids)
        return output

    runner._update_states, runner._sample = wrapped_update, wrapped_sample


def _engine(runner: Any) -> TracedEngine | None:
    """Return the runner's engine; None without speculative decoding."""
    return getattr(getattr(runner, "rejection_sampler", None), "mars", None)


def _rules_of(engine: TracedEngine, runner: Any) -> list[RequestRule | None]:
    """Return what the requests of the batch specify, in its order."""
    known: dict[str, RequestRule | None] = vars(runner).setdefault("_mars_rules", {})
    for request in runner.input_batch.req_ids:
        if request not in known:
            state = runner.requests[request]
            known[request] = wanted = (
                engine.resolve(state.sampling_params) if state.sampling_params else None
            )
            if wanted and wanted.trace and engine.writes:
                engine.begin(request, wanted, state.sampling_params, state.prompt_token_ids)
    return [known[request] for request in runner.input_batch.req_ids]


def _record(
    engine: TracedEngine,
    runner: Any,
    rules: Sequence[RequestRule | None],
    step: _Step | None,
    sampled: Tensor,
) -> None:
    """Counts and records one step; ``sampled``: int32 [batch, width]."""
    counts = step.counts if step else [0] * len(rules)
    if step:
        engine.count(
            sum(count for wanted, count in zip(rules, counts, strict=True) if wanted),
            step.accepted(sampled),
        )
    if not any(wanted.trace for wanted in rules if wanted):
        return
    judged = JudgedStep(step.drafted, step.relaxed, step.best) if step else None
    start = 0
    for i, (request, count) in enumerate(zip(runner.input_batch.req_ids, counts, strict=True)):
        record = engine.records.get(request)
        if record and not runner.discard_request_mask.np[i]:
            record.step(
                [token for token in sampled[i].tolist() if token >= 0],
                judged,
                slice(start, start + count),
            )
        start += count


def expand(
    x: Tensor, cu_num_tokens: Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Tensor:
    """Return vLLM's ``expand_batch_to_tokens`` in torch: each request's value, once for each of its
    tokens."""
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1)).long()
    return torch.repeat_interleave(
        x.masked_fill(x == replace_from, replace_to), counts, output_size=num_tokens
    )


def mend() -> None:
    """Replaces ``expand_batch_to_tokens`` by ``expand``: in vLLM 0.32.0 for CPUs without Triton it
    writes floats into a copy.

    Temperature, top-k and top-p of drafted tokens are then whatever the memory held.
    """
    import vllm.v1.sample.rejection_sampler as module

    module.expand_batch_to_tokens = expand
