"""The first parameters of what the plugin wraps in vLLM; a version may have more of them."""

from __future__ import annotations

import inspect
from importlib import import_module

_EXPECTED = {
    "vllm.v1.engine.input_processor": {
        "InputProcessor.__init__": "self vllm_config",
        "InputProcessor._validate_params": "self params",
    },
    "vllm.v1.sample.rejection_sampler": {
        "RejectionSampler.__init__": "self",
        "RejectionSampler.apply_logits_processors": "self logits",
        "rejection_sample": "draft_token_ids num_draft_tokens max_spec_len cu_num_draft_tokens draft_probs target_logits",
        "expand_batch_to_tokens": "x cu_num_tokens num_tokens replace_from replace_to",
    },
    "vllm.v1.worker.gpu_model_runner": {
        "GPUModelRunner._sample": "self logits spec_decode_metadata",
        "GPUModelRunner._update_states": "self scheduler_output",
    },
    "vllm.v1.worker.gpu.model_runner": {
        "GPUModelRunner.sample": "self hidden_states input_batch",
        "GPUModelRunner.finish_requests": "self scheduler_output",
    },
    "vllm.entrypoints.serve.utils.fingerprint": {"get_system_fingerprint": "vllm_config"},
}


def check(module: str) -> None:
    """Raises RuntimeError where a function or method of ``module`` does not begin with the expected
    parameters."""
    for name, expected in _EXPECTED[module].items():
        signature_of: object = import_module(module)
        for part in name.split("."):
            signature_of = getattr(signature_of, part, None)
        names = list(inspect.signature(signature_of).parameters) if callable(signature_of) else None
        wanted = expected.split()
        if names is None or names[: len(wanted)] != wanted:
            raise RuntimeError(
                f"mars-vllm expects {module}.{name}({', '.join(wanted)}, …); this vLLM has {names}."
            )
