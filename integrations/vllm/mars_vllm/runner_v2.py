"""Runner V2: a custom logits processor, ``--logits-processors mars_vllm.runner_v2:MarsProcessor``.

vLLM calls it before temperature, top-k and top-p, with one row for each drafted token and one for
the bonus token. A logits processor does not learn what was emitted, so counters and traces wrap two
methods of the runner.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor

from mars_vllm.arguments import RequestRule, RuleGroup
from mars_vllm.judging import NOBODY, Best, entry, force, relaxed, two_best
from mars_vllm.signatures import check
from mars_vllm.tracing import JudgedStep, TracedEngine


class MarsProcessor(LogitsProcessor):  # type: ignore[misc]  # vLLM is not installed where types are checked
    """Relaxes drafted tokens of the requests that specify it. Requests are validated by the plugin
    in the API server."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self.engine = TracedEngine(vllm_config, "V2")
        self.states = req_states
        self.rules: list[RequestRule | None] = [None] * req_states.max_num_reqs  # by slot
        self.params: list[Any] = [None] * req_states.max_num_reqs
        self.groups: list[RuleGroup] = []
        self.table = torch.tensor(
            [NOBODY] * req_states.max_num_reqs, dtype=torch.float64, device=req_states.device
        )
        self.temperatures = torch.ones(req_states.max_num_reqs, 1, device=req_states.device)
        self.judged: list[tuple[Tensor, ...]] = []  # of this step, by chunk of rows: see ``apply``
        _install_runner(sys.modules["vllm.v1.worker.gpu.model_runner"].GPUModelRunner)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Return whether the request specifies a rule."""
        wanted = self.rules[req_idx] = self.engine.resolve(sampling_params)
        self.params[req_idx] = sampling_params
        if wanted and wanted.group not in self.groups:
            self.groups.append(wanted.group)
        for column, value in enumerate(entry(wanted, self.groups)):
            self.table[req_idx, column] = value  # a kernel launch each, no copy from the host
        self.temperatures[req_idx] = (
            1.0 if wanted is None or wanted.greedy else sampling_params.temperature
        )
        return wanted is not None

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:
        """``logits``, float32 [rows, V], changed in place."""
        present = {wanted.group for slot in ctx.idx_mapping_np if (wanted := self.rules[slot])}
        if not present:
            return logits
        slots, positions = ctx.expanded_idx_mapping.long(), ctx.expanded_local_pos
        follows = (slots[1:] == slots[:-1]) & (positions[1:] == positions[:-1] + 1)
        drafted = torch.full_like(slots, -1)
        drafted[:-1] = torch.where(follows, ctx.input_ids[1:].long(), -1)
        best, table = two_best(logits), self.table[slots]
        groups = [group if group in present else None for group in self.groups]
        chosen = relaxed(groups, False, table, logits, best, drafted)
        if any(group.tempered for group in present):
            chosen |= relaxed(groups, True, table, logits / self.temperatures[slots], best, drafted)
        self.judged.append((drafted, chosen, *best, slots, positions))
        return force(logits, drafted, chosen)

    def record(self, input_batch: Any, sampled: Tensor, num_sampled: Tensor) -> None:
        """Counts and records one step; sampled: [batch, width], of which the first num_sampled
        [batch] tokens of a row count."""
        judged, self.judged = self.judged, []
        if not judged or not self.engine.writes:
            return
        drafted, chosen, z, ids, slots, positions = (
            torch.cat(parts) for parts in zip(*judged, strict=True)
        )
        rows = JudgedStep(drafted, chosen, Best(z, ids))
        accepted = torch.zeros(len(self.rules), dtype=num_sampled.dtype, device=num_sampled.device)
        accepted[input_batch.idx_mapping.long()] = num_sampled - 1
        ends, rules = (
            input_batch.cu_num_logits_np,
            [self.rules[slot] for slot in input_batch.idx_mapping_np],
        )
        drafts = [int(ends[i + 1] - ends[i]) - 1 for i in range(len(rules))]
        total = sum(count for wanted, count in zip(rules, drafts, strict=True) if wanted)
        self.engine.count(total, chosen & (positions < accepted[slots]))
        traced = [i for i, wanted in enumerate(rules) if wanted and wanted.trace]
        lengths, tokens = (num_sampled.tolist(), sampled.tolist()) if traced else ([], [])
        for i in traced:
            request, slot, start = (
                input_batch.req_ids[i],
                input_batch.idx_mapping_np[i],
                int(ends[i]),
            )
            if request not in self.engine.records:
                prompt = self.states.all_token_ids.gpu[
                    slot, : self.states.prompt_len.np[slot]
                ].tolist()
                self.engine.begin(request, rules[i], self.params[slot], prompt)
            self.engine.records[request].step(
                tokens[i][: lengths[i]], rows, slice(start, start + drafts[i])
            )


def _install_runner(runner: Any) -> None:
    if getattr(runner, "_mars", False):
        return
    check("vllm.v1.worker.gpu.model_runner")
    runner._mars = True
    sample, finish = runner.sample, runner.finish_requests

    @functools.wraps(sample)
    def wrapped_sample(
        self: Any, hidden_states: Tensor, input_batch: Any, grammar_output: Any
    ) -> Any:
        output = sample(self, hidden_states, input_batch, grammar_output)
        for processor in _processors(self):
            processor.record(input_batch, output[0].sampled_token_ids, output[1])
        return output

    @functools.wraps(finish)
    def wrapped_finish(self: Any, scheduler_output: Any) -> Any:
        for processor in _processors(self):
            processor.engine.finish(scheduler_output.finished_req_ids)
        return finish(self, scheduler_output)

    runner.sample, runner.finish_requests = wrapped_sample, wrapped_finish


def _processors(runner: Any) -> list[MarsProcessor]:
    return [
        each
        for each in getattr(runner.sampler, "logits_processors", ())
        if isinstance(each, MarsProcessor)
    ]
