"""What the plugin adds to vLLM in every process that loads it: validation of requests, the field of
the answers, runner V1."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mars_vllm import __version__
from mars_vllm.arguments import RequestRule, conflict, default_rule, defaults, resolve
from mars_vllm.served import served
from mars_vllm.signatures import wrap
from mars_vllm.tracing import ABOUT_ENABLED, ENABLED, ENABLED_LABELS

_MEND = "MARS_MEND_CPU"
_NEEDED: dict[str, tuple[object, str]] = {
    "rejection_sample_method": ("standard", "block, fly and synthetic accept by another test"),
    "draft_sample_method": ("greedy", "a relaxed token of a sampled draft may still be rejected"),
    "enable_adaptive_verification": (False, "it cuts drafts after the rule's rows are counted"),
}
PROCESSOR = "mars_vllm.runner_v2:MarsProcessor"


def install() -> None:
    """Raises RuntimeError where vLLM has other signatures, ValueError on invalid defaults in the
    environment."""
    from vllm.entrypoints.serve.utils import fingerprint
    from vllm.v1.engine.input_processor import InputProcessor

    defaults(os.environ)
    wrap(InputProcessor, "__init__", "self vllm_config", _init)
    wrap(InputProcessor, "_validate_params", "self params", _validate)
    wrap(fingerprint, "get_system_fingerprint", "vllm_config", _fingerprint)

    from mars_vllm import runner_v1

    runner_v1.install()
    if os.environ.get(_MEND) == "1":
        runner_v1.mend()


def _init(init: Any, self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
    init(self, vllm_config, *args, **kwargs)
    default = defaults(os.environ)
    self.mars = served(vllm_config, default)
    with suppress(ValueError):  # a second engine of one process
        REGISTRY.register(
            Enabled("V2" if vllm_config.use_v2_model_runner else "V1", default_rule(default))
        )
    wanted = resolve(SimpleNamespace(extra_args=None, temperature=0.0), self.mars)
    if problem := refusal(vllm_config, wanted, None):
        raise RuntimeError(f"The environment sets {', '.join(default)}, but {problem}")


def _validate(validate: Any, self: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
    """Raises VLLMValidationError, which is an answer with status 400 over HTTP."""
    from vllm.exceptions import VLLMValidationError

    result = validate(self, params, *args, **kwargs)
    if hasattr(params, "extra_args"):  # not for pooling
        try:
            problem = refusal(self.vllm_config, resolve(params, self.mars), params)
        except ValueError as error:
            problem = str(error)
        if problem:
            raise VLLMValidationError(problem)
    return result


def _fingerprint(get: Any, vllm_config: Any) -> Any:
    value = get(vllm_config)
    return value and f"{value}-mars-{__version__}"


class Enabled(Collector):
    """``vllm:mars_enabled`` at /metrics of a server without PROMETHEUS_MULTIPROC_DIR; with it the
    gauge of the worker is there.

    It has no ``_name``, by which vLLM finds and removes the metrics of an earlier engine.
    """

    def __init__(self, runner: str, rule: str) -> None:
        self.values = (__version__, runner, rule)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(ENABLED, ABOUT_ENABLED, labels=ENABLED_LABELS)
        family.add_metric(self.values, 1)
        return [family]


def refusal(config: Any, wanted: RequestRule | None, params: Any) -> str | None:
    """Return a sentence where vLLM would not do what the request specifies, else None. ``params``
    None checks the configuration only."""
    if wanted is None:
        return None
    drafts, v2 = config.speculative_config, config.use_v2_model_runner
    if drafts is None:
        return (
            "mars_rule needs speculative decoding; vLLM was started without --speculative-config."
        )
    for field, (needed, why) in _NEEDED.items():
        if (value := getattr(drafts, field, needed)) != needed:
            return (
                f"{field} of --speculative-config must be {needed} with mars_rule "
                f"{wanted.rule.name}, not {value}: {why}."
            )
    if getattr(config, "watermark_config", None) is not None:
        return "watermark_config of vLLM must be unset with mars_rule."
    if v2 and config.parallel_config.enable_batch_sharded_sampling:
        return "enable_batch_sharded_sampling of vLLM must be off with mars_rule."
    processors = [
        getattr(each, "__name__", each) for each in config.model_config.logits_processors or ()
    ]
    if v2 and PROCESSOR not in processors and "MarsProcessor" not in processors:
        return f"mars_rule needs --logits-processors {PROCESSOR} with runner V2."
    if params is None:
        return None
    broken = not v2 and config.device_config.device_type == "cpu" and os.environ.get(_MEND) != "1"
    if broken and not wanted.group.greedy and wanted.rule.name != "strict":
        return (
            f"temperature must be 0 with mars_rule, not {params.temperature:g}: vLLM for CPUs "
            f"loses the temperature of speculative decoding. Start it with {_MEND}=1 to repair "
            "that."
        )
    return conflict(wanted, params, v2)
