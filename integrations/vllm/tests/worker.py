"""Runs batches of requests in vLLM and writes what came out: ``python worker.py job.json
result.json``. Needs vLLM, not this repository.

The job: target, draft (a folder, or empty for n-grams), method, runner (V1 or V2), expand (repairs
the CPU build without the plugin) and batches, lists of {"prompt_ids", "sampling"}. The result: for
every batch ids and the raw logits of the two best tokens at each, the counters of speculative
decoding, seconds, and what a refused request was told.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

K = 5


def main(job: dict) -> dict:
    if (
        job["runner"] == "V2"
    ):  # Triton's interpreter, and a stand-in for a driver, without which vLLM takes runner V1
        import triton.backends

        triton.backends.backends["cpu"] = SimpleNamespace(
            driver=SimpleNamespace(is_active=lambda: True), compiler=None
        )
    from vllm import LLM, SamplingParams

    if job.get("expand"):
        import torch
        import vllm.v1.sample.rejection_sampler as module

        def expand(x, ends, total, replace_from=0, replace_to=0):
            x = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
            return x.repeat_interleave(torch.diff(ends, prepend=ends.new_zeros(1)).long())[:total]

        module.expand_batch_to_tokens = expand
    drafts = {"method": job["method"], "num_speculative_tokens": K} | job.get("drafting", {})
    if job["draft"]:
        drafts["model"] = job["draft"]
    else:
        drafts |= {"prompt_lookup_max": 4, "prompt_lookup_min": 1}
    engine = LLM(
        model=job["target"],
        dtype="float32",
        max_model_len=512,
        enforce_eager=True,
        max_num_seqs=16,
        speculative_config=drafts,
        disable_log_stats=False,
        logprobs_mode="raw_logits",
        seed=0,
        enable_prefix_caching=False,
        logits_processors=job.get("logits_processors"),
    )
    return {"batches": [run(engine, SamplingParams, batch) for batch in job["batches"]]}


def counters(engine) -> dict:
    return {m.name: m.value for m in engine.get_metrics() if hasattr(m, "value")}


def run(engine, params, batch: list[dict]) -> dict:
    from vllm.exceptions import VLLMClientError

    before, start = counters(engine), time.perf_counter()
    try:
        outputs = engine.generate(
            [{"prompt_token_ids": each["prompt_ids"]} for each in batch],
            [params(logprobs=2, **each["sampling"]) for each in batch],
            use_tqdm=False,
        )
    except (ValueError, VLLMClientError) as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    took, after = time.perf_counter() - start, counters(engine)
    return {
        "seconds": took,
        "outputs": [
            {
                "ids": list(each.outputs[0].token_ids),
                "text": each.outputs[0].text,
                "best": [
                    sorted(((v.logprob, k) for k, v in row.items() if v.rank <= 2), reverse=True)
                    for row in each.outputs[0].logprobs
                ],
            }
            for each in outputs
        ],
        "counters": {
            name: after[name] - before.get(name, 0)
            for name in after
            if "spec_decode" in name or "mars" in name
        },
    }


if __name__ == "__main__":
    result = main(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(result))
