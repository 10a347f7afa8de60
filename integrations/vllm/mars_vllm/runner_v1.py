"""Runner V1: methods of vLLM are wrapped, since it refuses custom logits processors together with
speculative decoding.

The rule is judged on the raw logits that ``apply_logits_processors`` receives; rows are forced at
the entry of ``rejection_sample``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mars_vllm.arguments import RequestRule
from mars_vllm.judging import WIDTH, Step, entry, force
from mars_vllm.places import NO_SPAN, after
from mars_vllm.signatures import wrap
from mars_vllm.tracing import JudgedStep, TracedEngine


def _step(rules: Sequence[RequestRule | None], places: Tensor, metadata: Any) -> Step:
    """Return the drafted tokens of a batch; places: of its requests, [batch, 2]."""
    from vllm.utils.torch_utils import async_tensor_h2d

    groups = sorted({wanted.group for wanted in rules if wanted})
    entries = [entry(wanted, groups) for wanted in rules]
    rows = [
        (*entries[i], i, local)
        for i, count in enumerate(metadata.num_draft_tokens)
        for local in range(count)
    ]
    drafted = metadata.draft_token_ids.long()
    table = async_tensor_h2d(rows, drafted.device, torch.float64)
    owner, local = table[:, WIDTH:].long().unbind(-1)
    return Step(groups, table, drafted, local, places[owner])


def _accepted(step: Step, sampled: Tensor) -> Tensor:
    """Return bool [P]: which relaxed tokens are in the output, int32 [batch, width]; after a
    rejection it has −1."""
    return step.relaxed & torch.eq(sampled[step.table[:, WIDTH].long(), step.local], step.drafted)


# The first parameters of ``rejection_sample``; ``_reject`` changes the last of them.
_REJECTION = (
    "draft_token_ids num_draft_tokens max_spec_len cu_num_draft_tokens draft_probs target_logits"
)
_current: list[Step] = []  # the step that is being sampled, if any of its requests has a rule
# Of the requests of this process, which has one runner.
_rules: dict[str, RequestRule | None] = {}
_places: dict[str, Tensor] = {}


def install() -> None:
    """Wraps the rejection sampler; the runner itself once it makes one. Raises RuntimeError on
    unknown signatures."""
    import vllm.v1.sample.rejection_sampler as module

    wrap(module.RejectionSampler, "__init__", "self", _init)
    wrap(module.RejectionSampler, "apply_logits_processors", "self logits", _process)
    wrap(module, "rejection_sample", _REJECTION, _reject)


def _init(init: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    from vllm.config import get_current_vllm_config

    init(self, *args, **kwargs)
    self.mars = TracedEngine(get_current_vllm_config(), "V1")
    runner = sys.modules["vllm.v1.worker.gpu_model_runner"].GPUModelRunner
    wrap(runner, "_update_states", "self scheduler_output", _update)
    wrap(runner, "_sample", "self logits spec_decode_metadata", _sample)


def _process(processors: Any, self: Any, logits: Tensor, *args: Any, **kwargs: Any) -> Any:
    if _current:
        _current[0].judge(logits)
    return processors(self, logits, *args, **kwargs)


def _reject(sample: Any, *args: Any, **kwargs: Any) -> Any:
    if _current:
        step, logits = _current[0], args[5]
        step.temper(logits)
        args = (*args[:5], force(logits, step.drafted, step.relaxed), *args[6:])
    return sample(*args, **kwargs)


def _update(update: Any, self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
    if engine := _engine(self):
        engine.finish(scheduler_output.finished_req_ids)
        for request in scheduler_output.finished_req_ids:
            _rules.pop(request, None)
            _places.pop(request, None)
    return update(self, scheduler_output, *args, **kwargs)


def _sample(
    sample: Any, self: Any, logits: Any, spec_decode_metadata: Any, *args: Any, **kwargs: Any
) -> Any:
    engine = _engine(self)
    rules = _rules_of(engine, self) if engine else []
    if not any(rules):
        return sample(self, logits, spec_decode_metadata, *args, **kwargs)
    places = _places_of(self)
    if spec_decode_metadata is not None and any(spec_decode_metadata.num_draft_tokens):
        _current.append(_step(rules, places, spec_decode_metadata))
    try:
        output = sample(self, logits, spec_decode_metadata, *args, **kwargs)
    finally:
        step = _current.pop() if _current else None
    _advance(self, rules, places, output.sampled_token_ids)
    if engine and engine.writes:
        counts = spec_decode_metadata.num_draft_tokens if step else [0] * len(rules)
        _record(engine, self, rules, step, counts, output.sampled_token_ids)
    return output


def _engine(runner: Any) -> TracedEngine | None:
    """Return the runner's engine; None without speculative decoding."""
    return getattr(getattr(runner, "rejection_sampler", None), "mars", None)


def _rules_of(engine: TracedEngine, runner: Any) -> list[RequestRule | None]:
    """Return what the requests of the batch specify, in its order."""
    for request in runner.input_batch.req_ids:
        if request not in _rules:
            state = runner.requests[request]
            _rules[request] = wanted = (
                engine.resolve(state.sampling_params) if state.sampling_params else None
            )
            if wanted and wanted.trace and engine.writes:
                engine.begin(request, wanted, state.sampling_params, state.prompt_token_ids)
            if wanted and wanted.group.placed:
                ids = [*(state.prompt_token_ids or ()), *state.output_token_ids]
                thinking = wanted.span is not None and wanted.span.inside(ids)
                place = torch.tensor([len(state.output_token_ids), thinking], dtype=torch.float64)
                _places[request] = place.to(runner.device, non_blocking=True)
    return [_rules[request] for request in runner.input_batch.req_ids]


def _places_of(runner: Any) -> Tensor:
    """Return where the requests of the batch are, [batch, 2]; 0 where it is not asked for."""
    nowhere = torch.zeros(2, dtype=torch.float64, device=runner.device)
    return torch.stack([_places.get(request, nowhere) for request in runner.input_batch.req_ids])


def _advance(
    runner: Any, rules: Sequence[RequestRule | None], places: Tensor, sampled: Tensor
) -> None:
    """Moves the requests past what was sampled, int32 [batch, width], −1 where nothing was."""
    if not any(wanted.group.placed for wanted in rules if wanted):
        return
    spans = [(wanted and wanted.span) or NO_SPAN for wanted in rules]
    unfinished = runner.discard_request_mask.gpu[: len(rules)]  # prompts that are read in parts
    counts = (sampled >= 0).sum(-1).masked_fill(unfinished, 0)
    moved = after(places, places.new_tensor(spans), sampled, counts)
    for request, place in zip(runner.input_batch.req_ids, moved.unbind(), strict=True):
        if request in _places:
            _places[request] = place


def _record(
    engine: TracedEngine,
    runner: Any,
    rules: Sequence[RequestRule | None],
    step: Step | None,
    counts: Sequence[int],
    sampled: Tensor,
) -> None:
    """Counts and records one step; counts: drafted tokens of each request; sampled: int32 [batch,
    width]."""
    if step:
        engine.count(
            sum(count for wanted, count in zip(rules, counts, strict=True) if wanted),
            _accepted(step, sampled),
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

    parameters = "x cu_num_tokens num_tokens replace_from replace_to"
    wrap(module, "expand_batch_to_tokens", parameters, lambda _, *args, **kw: expand(*args, **kw))
