"""``python -m bench.exact``: how often strict's text differs from the target's because passes have
other shapes.

The held-out problems and story requests of the bundled pair, or the prompts of ``mars check`` for
another ``--target`` with n-grams, at temperatures 0 and 1; every drafter against ``none``, and a
run that is continued in its middle with its tokens against itself. The result is written after
every prompt. OMP_NUM_THREADS sets the number of threads.
"""

from __future__ import annotations

from pathlib import Path

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import DRAFTERS, Differences, Ours, loaded, mixed_prompts
from bench.common.report import BenchReport, ResultTable
from mars_core.models import ModelPool, custom_pair
from mars_core.models.catalog import GENERAL_PROMPTS
from mars_core.types import DrafterConfig, PromptConfig

WAYS = {
    **DRAFTERS,
    "draft model, K = 20": DrafterConfig("model", k=20),
    "n-grams, K = 17": DrafterConfig("ngram", k=17),
}
CONTINUED = "n-grams"
HEADS = ("strict with", "texts that differ from `none`")


@measurement("bench.exact", __doc__, prompts=400, max_new_tokens=160, dtype="bfloat16", target="")
def main(options: Options) -> Reports:
    drafters, prompts = WAYS, mixed_prompts(options.prompts)
    if options.target:
        pair = ModelPool(device="cpu", dtype=options.dtype).get(custom_pair(options.target))
        drafters = {name: WAYS[name] for name in WAYS if name.startswith(("none", "n-grams"))}
        prompts = [PromptConfig(text) for text in GENERAL_PROMPTS]
    else:
        pair = loaded(device="cpu", dtype=options.dtype)
    model = Path(options.target).name or "bundled"
    exact, differences = pair.inexact or str(pair.shapes), Differences()
    for seed, prompt in enumerate(prompts):
        for temperature in (0.0, 1.0):
            methods = {
                name: Ours(pair, "", drafter, temperature, options.max_new_tokens)
                for name, drafter in drafters.items()
            }
            differences.add(methods, prompt, seed, continued=(CONTINUED,))
        continued = (f"{CONTINUED}, continued", differences.continued[CONTINUED])
        yield BenchReport(
            "Strict against the target alone",
            [f"{differences.texts} texts, half of them at temperature 1"],
            tables=[ResultTable(HEADS, [*differences.strict.items(), continued])],
            facts={"dtype": options.dtype, "exact": exact, "model": model},
            name=f"exact-{model}-{options.dtype}",
        )


if __name__ == "__main__":
    raise SystemExit(main())
