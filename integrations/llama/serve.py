"""A llama.cpp server on this machine: ``python serve.py MODEL.gguf KIND [THREADS [CONTEXT]]``, in an
environment with xllamacpp; prints its URL. CONTEXT: tokens of each of its four slots.

KIND: ``none``, without speculative decoding; ``ngram``, drafts from the text before; ``draft``, the
model itself as draft model; ``synthetic``, the same accepted by chance and not by verification
(llama.cpp's mode for measuring speed), which is not lossless.
"""

import sys

import xllamacpp

model, kind, *more = sys.argv[1:]
threads, context = (*map(int, more), *(1, 1024)[len(more) :])
settings = xllamacpp.CommonParams()
settings.model.path = settings.speculative.draft.mparams.path = model
settings.model_alias = {"smollm2"}
settings.hostnames, settings.port = ["127.0.0.1"], 0
settings.n_parallel, settings.n_ctx = 4, 4 * context
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
settings.endpoint_metrics, settings.ui, settings.verbosity = True, False, 0
kinds = xllamacpp.common_speculative_type
if kind == "ngram":
    settings.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K]
    settings.speculative.ngram_map_k.size_n, settings.speculative.ngram_map_k.size_m = 2, 4
elif kind != "none":
    settings.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
if kind == "synthetic":
    settings.speculative.synth_len = 3.0
server = xllamacpp.Server(settings)  # stops when it is forgotten
print(server.listening_address, flush=True)  # noqa: T201
sys.stdin.read()  # until the process that started it closes its end, or is no more
