"""The versions of vLLM that were tried, and the parameters of what the plugin wraps there."""

from __future__ import annotations

import inspect
from importlib import import_module

TRIED = ("0.32.0",)
_EXPECTED = {
    "vllm.v1.engine.input_processor": {
        "InputProcessor.__init__": "self vllm_config renderer mm_registry",
        "InputProcessor._validate_params": "self params supported_tasks",
    },
    "vllm.v1.sample.rejection_sampler": {
        "RejectionSampler.__init__": "self sampler spec_config device",
        "RejectionSampler.apply_logits_processors": "self logits sampling_metadata metadata",
        "rejection_sample": "draft_token_ids num_draft_tokens max_spec_len cu_num_draft_tokens draft_probs target_logits "
        "bonus_token_ids sampling_metadata synthetic_mode synthetic_conditional_rates "
        "use_fp64_gumbel",
        "expand_batch_to_tokens": "x cu_num_tokens num_tokens replace_from replace_to",
    },
    "vllm.v1.worker.gpu_model_runner": {
        "GPUModelRunner._sample": "self logits spec_decode_metadata",
        "GPUModelRunner._update_states": "self scheduler_output",
    },
    "vllm.v1.worker.gpu.model_runner": {
        "GPUModelRunner.sample": "self hidden_states input_batch grammar_output",
        "GPUModelRunner.finish_requests": "self scheduler_output",
    },
    "vllm.entrypoints.serve.utils.fingerprint": {"get_system_fingerprint": "vllm_config"},
}


def check_version(version: str) -> None:
    """Raises RuntimeError where this version of vLLM was not tried."""
    if version.partition("+")[0] not in TRIED:
        raise RuntimeError(
            f"mars-vllm was tried with vLLM {', '.join(TRIED)}; this is {version}. Uninstall the "
            "plugin, or leave it out of VLLM_PLUGINS."
        )


def check(module: str) -> None:
    """Raises RuntimeError where a function or method of ``module`` has other parameters than
    expected."""
    for name, expected in _EXPECTED[module].items():
        signature_of: object = import_module(module)
        for part in name.split("."):
            signature_of = getattr(signature_of, part, None)
        names = list(inspect.signature(signature_of).parameters) if callable(signature_of) else None
        if names != expected.split():
            raise RuntimeError(
                f"mars-vllm expects {module}.{name}({', '.join(expected.split())}); this vLLM has "
                f"{names}."
            )
