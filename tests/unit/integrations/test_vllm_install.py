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
    **changed: Any,
) -> SimpleNamespace:
    """Return vLLM's configuration; ``changed``: fields of it, or of its drafts."""
    drafts = {
        "rejection_sample_method": "standard",
        "draft_sample_method": "greedy",
        "enable_adaptive_verification": False,
    }
    other = {name: changed.pop(name) for name in [*changed] if name not in drafts}
    usual = {
        "speculative_config": SimpleNamespace(**drafts | changed),
        "use_v2_model_runner": v2,
        "device_config": SimpleNamespace(device_type=device),
        "model_config": SimpleNamespace(logits_processors=processors),
        "parallel_config": SimpleNamespace(enable_batch_sharded_sampling=sharded),
    }
    return SimpleNamespace(**usual | other)


DRAFTS = "of --speculative-config must be"
REFUSED = {  # at temperature 0
    f"rejection_sample_method {DRAFTS} standard ": config(rejection_sample_method="block"),
    f"enable_adaptive_verification {DRAFTS} False with mars_rule mars, ": config(
        enable_adaptive_verification=True
    ),
    "watermark_config of vLLM must be unset with mars_rule.": config(watermark_config=object()),
    f"mars_rule needs --logits-processors {PROCESSOR} with runner V2.": config(v2=True),
    "enable_batch_sharded_sampling of vLLM must be off with mars_rule.": config(
        v2=True, processors=[PROCESSOR], sharded=True
    ),
    "mars_rule needs speculative decoding; ": config(speculative_config=None),
}


def problem(settings: SimpleNamespace, temperature: float = 0.0, rule: str = "mars") -> str:
    params = SimpleNamespace(temperature=temperature, extra_args={"mars_rule": rule})
    return refusal(settings, resolve(params, Served()), params) or ""


def test_what_would_not_be_the_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MARS_MEND_CPU", raising=False)
    for message, settings in REFUSED.items():
        assert problem(settings).startswith(message)
        assert refusal(settings, None, None) is None, "a request that asks for nothing"
    assert not problem(config(v2=True, processors=[PROCESSOR]))
    assert not problem(config(), 0.7)
    cpu = config(device="cpu")
    assert not problem(cpu) and not problem(cpu, 0.7, "strict")  # vLLM's sampling
    why = "temperature must be 0 with mars_rule, not 0.7: vLLM for CPUs loses"
    assert problem(cpu, 0.7).startswith(why)
    monkeypatch.setenv("MARS_MEND_CPU", "1")
    assert not problem(cpu, 0.7)


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
