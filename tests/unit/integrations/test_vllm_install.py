"""Where the plugin refuses to work, by vLLM's version, signatures and configuration. vLLM itself is
not needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mars_vllm import signatures
from mars_vllm.arguments import resolve
from mars_vllm.install import PROCESSOR, refusal
from mars_vllm.runner_v1 import expand
from mars_vllm.served import Served


def config(
    *,
    v2: bool = False,
    processors: Any = None,
    device: str = "cuda",
    sharded: bool = False,
    **drafts: Any,
) -> SimpleNamespace:
    usual = dict(
        rejection_sample_method="standard",
        draft_sample_method="greedy",
        enable_adaptive_verification=False,
    )
    return SimpleNamespace(
        speculative_config=SimpleNamespace(**usual | drafts),
        use_v2_model_runner=v2,
        device_config=SimpleNamespace(device_type=device),
        model_config=SimpleNamespace(logits_processors=processors),
        parallel_config=SimpleNamespace(enable_batch_sharded_sampling=sharded),
    )


CPU, V2 = config(device="cpu"), config(v2=True, processors=[PROCESSOR])


@pytest.mark.parametrize(
    ("settings", "temperature", "rule", "message"),
    [
        (
            config(rejection_sample_method="block"),
            0.0,
            "mars",
            "rejection_sample_method of --speculative-config must be standard ",
        ),
        (
            config(enable_adaptive_verification=True),
            0.0,
            "mars",
            "enable_adaptive_verification of --speculative-config must be False with mars_rule mars, ",
        ),
        (
            SimpleNamespace(**vars(config()) | {"watermark_config": object()}),
            0.0,
            "mars",
            "watermark_config of vLLM must be unset with mars_rule.",
        ),
        (
            config(v2=True),
            0.0,
            "mars",
            f"mars_rule needs --logits-processors {PROCESSOR} with runner V2.",
        ),
        (
            config(v2=True, processors=[PROCESSOR], sharded=True),
            0.0,
            "mars",
            "enable_batch_sharded_sampling of vLLM must be off with mars_rule.",
        ),
        (
            SimpleNamespace(**vars(config()) | {"speculative_config": None}),
            0.0,
            "mars",
            "mars_rule needs speculative decoding; ",
        ),
        (CPU, 0.7, "mars", "temperature must be 0 with mars_rule, not 0.7: vLLM for CPUs loses"),
        (CPU, 0.7, "strict", None),  # vLLM's sampling
        (CPU, 0.0, "mars", None),
        (config(), 0.7, "mars", None),
        (V2, 0.0, "mars", None),
    ],
)
def test_what_would_not_be_the_rule_is_refused(
    settings: SimpleNamespace,
    temperature: float,
    rule: str,
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MARS_MEND_CPU", raising=False)
    params = SimpleNamespace(temperature=temperature, extra_args={"mars_rule": rule})
    request = resolve(params, Served())
    problem = refusal(settings, request, params)
    assert problem is None if message is None else str(problem).startswith(message)
    assert refusal(settings, None, None) is None, "a request that asks for nothing"
    if settings is CPU:
        monkeypatch.setenv("MARS_MEND_CPU", "1")
        assert refusal(settings, request, params) is None


def test_the_repair_expands_values_of_any_type() -> None:
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    assert expand(torch.tensor([0.5, 9.0, 0.0]), ends, 5, 0, 1).tolist() == [
        0.5,
        0.5,
        1.0,
        1.0,
        1.0,
    ]
    assert expand(torch.tensor([7, 9, 0], dtype=torch.int32), ends, 5).tolist() == [7, 7, 0, 0, 0]


def test_a_function_is_wrapped_once_where_it_begins_with_known_parameters() -> None:
    class Runner:
        def sample(self, logits: int, metadata: int, more: int = 1) -> int:
            return logits + metadata + more

    def around(inner: Any, self: Any, *args: int, **more: int) -> int:
        return 10 * int(inner(self, *args, **more))

    expected = r"^mars-vllm expects Runner\.%s\(self, drafts, …\); this vLLM has %s\.$"
    for name, names in (("sample", r"\['self', 'logits', 'metadata', 'more'\]"), ("draw", "None")):
        with pytest.raises(RuntimeError, match=expected % (name, names)):
            signatures.wrap(Runner, name, "self drafts", around)
    for _ in range(2):
        signatures.wrap(Runner, "sample", "self logits", around)
    assert Runner().sample(1, 2) == 40 and Runner().sample(1, metadata=2, more=3) == 60
