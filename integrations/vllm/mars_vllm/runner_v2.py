"""Runner V2: a custom logits processor, ``--logits-processors mars_vllm.runner_v2:MarsProcessor``.

vLLM calls it before temperature, top-k and top-p, with one row for each drafted token and one for
the bonus token. A logits processor does not learn what was emitted, so counters and traces wrap two
methods of the runner.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor

from mars_vllm.arguments import RequestRule, RuleGroup
from mars_vllm.judging import NOBODY, WIDTH, Best, Step, entry, force
from mars_vllm.places import after
from mars_vllm.signatures import wrap
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
            [(*NOBODY, 1.0)] * req_states.max_num_reqs,
            dtype=torch.float64,
            device=req_states.device,
        )  # the last column: temperature
        self.places = torch.zeros(
            req_states.max_num_reqs, 2, dtype=torch.float64, device=req_states.device
        )
        self.fresh: list[int] = []  # slots whose place is not known yet
        # Of this step, by chunk of rows: see ``apply``.
        self.judged: list[tuple[Tensor, ...]] = []
        runner = sys.modules["vllm.v1.worker.gpu.model_runner"].GPUModelRunner
        wrap(runner, "sample", "self hidden_states input_batch", _sample)
        wrap(runner, "finish_requests", "self scheduler_output", _finish)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Return whether the request specifies a rule."""
        wanted = self.rules[req_idx] = self.engine.resolve(sampling_params)
        self.params[req_idx] = sampling_params
        if wanted and wanted.group not in self.groups:
            used = {each.group for each in self.rules if each}
            unused = [i for i, group in enumerate(self.groups) if group not in used]
            place = unused[0] if unused else len(self.groups)
            self.groups[place : place + 1] = [wanted.group]
        temperature = sampling_params.temperature if wanted and not wanted.group.greedy else 1.0
        for column, value in enumerate((*entry(wanted, self.groups), temperature)):
            self.table[req_idx, column] = value  # a kernel launch each, no copy from the host
        if wanted and wanted.group.placed:
            self.fresh.append(req_idx)
        return wanted is not None

    def apply_staged_writes(self) -> None:
        """Follow the tokens of new requests, which the runner has written by now."""
        fresh, self.fresh = self.fresh, []
        for slot in fresh:
            length = int(self.states.prefill_len.np[slot])
            ids = self.states.all_token_ids.gpu[slot, :length].to(self.places.device)
            start = self.places.new_tensor([[-float(self.states.prompt_len.np[slot]), 0.0]])
            count = torch.full((1,), length, device=self.places.device)
            self.places[slot] = after(
                start, self.table[slot : slot + 1, 3:WIDTH], ids[None], count
            )[0]

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:
        """``logits``, float32 [rows, V], changed in place."""
        present = {wanted.group for slot in ctx.idx_mapping_np if (wanted := self.rules[slot])}
        if not present:
            return logits
        slots, positions = ctx.expanded_idx_mapping.long(), ctx.expanded_local_pos
        follows = (slots[1:] == slots[:-1]) & (positions[1:] == positions[:-1] + 1)
        drafted = torch.full_like(slots, -1)
        drafted[:-1] = torch.where(follows, ctx.input_ids[1:].long(), -1)
        groups = [group if group in present else None for group in self.groups]
        step = Step(groups, self.table[slots], drafted, positions, self.places[slots])
        step.judge(logits)
        if any(group.tempered for group in present):
            step.temper(logits / step.table[:, WIDTH:].float())
        self.judged.append((drafted, step.relaxed, *step.best, slots, positions))
        return force(logits, drafted, step.relaxed)

    def record(self, input_batch: Any, sampled: Tensor, num_sampled: Tensor) -> None:
        """Counts and records one step; sampled: [batch, width], of which the first num_sampled
        [batch] tokens of a row count."""
        rules = [self.rules[slot] for slot in input_batch.idx_mapping_np]
        if any(wanted.group.placed for wanted in rules if wanted):
            slots = input_batch.idx_mapping.long()
            self.places[slots] = after(
                self.places[slots], self.table[slots, 3:WIDTH], sampled, num_sampled
            )
        judged, self.judged = self.judged, []
        if not judged or not self.engine.writes:
            return
        drafted, chosen, z, ids, slots, positions = (
            torch.cat(parts) for parts in zip(*judged, strict=True)
        )
        rows = JudgedStep(drafted, chosen, Best(z, ids))
        accepted = torch.zeros(len(self.rules), dtype=num_sampled.dtype, device=num_sampled.device)
        accepted[input_batch.idx_mapping.long()] = num_sampled - 1
        ends = input_batch.cu_num_logits_np
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


def _sample(
    sample: Any, self: Any, hidden_states: Any, input_batch: Any, *args: Any, **kwargs: Any
) -> Any:
    output = sample(self, hidden_states, input_batch, *args, **kwargs)
    for processor in _processors(self):
        processor.record(input_batch, output[0].sampled_token_ids, output[1])
    return output


def _finish(finish: Any, self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
    for processor in _processors(self):
        processor.engine.finish(scheduler_output.finished_req_ids)
    return finish(self, scheduler_output, *args, **kwargs)


def _processors(runner: Any) -> list[MarsProcessor]:
    return [
        each
        for each in getattr(runner.sampler, "logits_processors", ())
        if isinstance(each, MarsProcessor)
    ]
