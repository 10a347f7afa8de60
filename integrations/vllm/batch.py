"""Batches of prompts in vLLM on a CPU, for ``python -m bench.batches``: ``python batch.py TARGET
DRAFT K SLOTS``, in an environment with vLLM. DRAFT may be empty: no speculative decoding.

Every line of the input is a JSON list of prompts, each a list of ids, and the number of new tokens;
the line of the answer is the list of new ids. At temperature 0, in float32.
"""

import json
import os
import sys

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",  # no process that waits for work actively
    VLLM_LOGGING_LEVEL="ERROR",
)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what vLLM prints is no answer

from vllm import LLM, SamplingParams  # noqa: E402

target, draft, k, slots = sys.argv[1:]
drafting = {"method": "draft_model", "model": draft, "num_speculative_tokens": int(k)}
engine = LLM(
    model=target,
    dtype="float32",
    max_model_len=512,
    enforce_eager=True,
    max_num_seqs=int(slots),
    enable_prefix_caching=False,
    speculative_config=drafting if draft else None,
)
for line in sys.stdin:
    prompts, new = json.loads(line)
    outputs = engine.generate(
        [{"prompt_token_ids": ids} for ids in prompts],
        SamplingParams(temperature=0, max_tokens=new),
        use_tqdm=False,
    )
    print(
        json.dumps([list(each.outputs[0].token_ids) for each in outputs]), file=answers, flush=True
    )
