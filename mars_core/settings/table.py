"""The settings of a run, each declared once. The command line, the page and its address, the
endpoints, lm-eval's arguments, the Python interface and configuration files are made from this
table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from mars_core.models import CATALOG
from mars_core.settings.drafts import Drafts, LaneList, LaneSettings
from mars_core.settings.kind import (
    Biases,
    Flag,
    Number,
    Protected,
    Text,
    TokenIds,
    Whole,
    Words,
)
from mars_core.settings.setting import kinds, setting
from mars_core.types import (
    PROTECTED,
    Processors,
    RunConfig,
)

LARGEST_SEED = 2**53 - 1  # exact in JSON and in every browser
MOST_REPEATS = 20
PROCESSORS = tuple(each.name for each in fields(Processors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Drafts):
    """What the runs of one prompt are to do, as a person says it: see ``Settings``."""

    prompt: str = setting("", Text("the prompt; - reads standard input"))
    rules: tuple[LaneSettings, ...] = setting(
        (),
        LaneList(
            'rules in their order, the first is the baseline, e.g. ["strict", "mars(theta=0.9)"]'
        ),
    )
    system: str = setting("", Text("system prompt", section="prompt", title="System prompt"))
    chat: bool = setting(
        True,
        Flag(
            "use the chat template of the tokenizer, where it has one",
            section="prompt",
            title="Use the chat template",
        ),
    )
    thinking: bool | None = setting(
        None, Flag("thinking switch of the chat template (default: its own)", section="prompt")
    )
    stop: tuple[str, ...] = setting(
        (), Words("stop string", section="prompt", title="Stop strings")
    )
    structure: str = setting(
        "",
        Text(
            "JSON of tools and response_format as OpenAI's interface has them; a model here is given "
            "the tools alone"
        ),
    )
    prefix: tuple[int, ...] = setting(
        (), TokenIds("ids of output tokens that are given; the runs go on after them")
    )
    pair: str = setting(
        "",
        Text(
            f"a pair of the catalog: {', '.join(spec.key for spec in CATALOG)}",
            section="run",
            title="Model pair",
        ),
    )
    target: str = setting(
        "",
        Text(
            "Hub id (owner/name@revision), folder or GGUF file (a path or owner/name/file.gguf), "
            "used instead of a pair",
            section="models",
        ),
    )
    draft: str = setting(
        "",
        Text("Hub id, folder or GGUF file of a draft model", section="models", title="Draft model"),
    )
    head: str = setting(
        "", Text("Hub id or folder of an EAGLE-3 head", section="models", title="EAGLE-3 head")
    )
    classifier: str = setting(
        "",
        Text(
            "Hub id or folder of a classifier of the target's hidden states (default: the pair's)"
        ),
    )
    server: tuple[str, ...] = setting(
        (),
        Words(
            "base URL of an OpenAI-compatible server, which writes a lane",
            metavar="URL",
            least=0,
        ),
    )
    server_model: tuple[str, ...] = setting(
        (),
        Words("its model (default: the only one it has)", metavar="NAME", least=0),
    )
    temperature: float = setting(0.0, Number("0 is greedy", 0, 100, 0.1, section="run"))
    top_k: int = setting(
        0, Whole("keep the k likeliest tokens; 0 is off", 0, section="sampling", title="Top-k")
    )
    top_p: float = setting(
        1.0,
        Number(
            "keep the likeliest tokens of this total; 1 is off",
            1e-6,
            1,
            0.05,
            section="sampling",
            title="Top-p",
        ),
    )
    min_p: float = setting(
        0.0,
        Number(
            "keep tokens of at least this share of the largest probability; 0 is off",
            *(0, 1, 0.01),
            section="processors",
        ),
    )
    typical_p: float = setting(
        1.0,
        Number(
            "keep the most typical tokens of this total; 1 is off",
            0.001,
            1,
            0.01,
            section="processors",
        ),
    )
    repetition_penalty: float = setting(
        1.0,
        Number(
            "divides positive logits of tokens of prompt and output, multiplies negative ones; 1 is off",
            *(0.01, 100, 0.1),
            section="processors",
        ),
    )
    presence_penalty: float = setting(
        0.0,
        Number(
            "taken from the logits of tokens of the output; 0 is off",
            -100,
            100,
            0.1,
            section="processors",
        ),
    )
    frequency_penalty: float = setting(
        0.0, Number("the same, times their number; 0 is off", -100, 100, 0.1, section="processors")
    )
    no_repeat_ngram_size: int = setting(
        0,
        Whole(
            "no n-gram of this size occurs twice in prompt and output; 0 is off",
            0,
            100,
            section="processors",
        ),
    )
    logit_bias: tuple[tuple[str, float], ...] = setting(
        (),
        Biases(
            "added to the logit that completes a word: a text, or ids such as [42, 7]; -inf: never",
            most=64,
            metavar="WORD=VALUE",
            section="processors",
            title="Logit biases",
        ),
    )
    protect: tuple[str, ...] = setting(
        PROTECTED,
        Protected(
            "tokens that no rule relaxes: special, digits, quotes, the text of tokens with "
            "* and ?, or ids such as [42, 7]; none: no token",
            *(16, 100),
            metavar="WORD",
            section="processors",
            title="Protected tokens",
        ),
    )
    max_new_tokens: int = setting(
        128,
        Whole("maximum number of new tokens", 1, 10**6, 16, section="run", title="Max new tokens"),
    )
    repeats: int = setting(
        1,
        Whole(
            "runs of each lane in turns, to measure the time; 0: some, if quick",
            0,
            MOST_REPEATS,
            section="run",
            title="Runs per lane",
        ),
    )
    seed: int = setting(0, Whole("random seed", 0, LARGEST_SEED, section="run"))
    device: str = setting("auto", Text("auto, cpu, cuda, cuda:1"))
    dtype: str = setting("auto", Text("auto, float32, bfloat16, float16, gguf"))
    graphs: bool = setting(True, Flag("record steps as CUDA graphs, on CUDA"))


KINDS = kinds(Table)
OF_RUNS = (  # those that a RunConfig has under their names
    *("system", "chat", "thinking", "stop", "structure", "prefix", "temperature", "top_k", "top_p"),
    *PROCESSORS,
    *("max_new_tokens", "seed"),
)


def value_in(config: RunConfig, name: str) -> Any:
    """Return the value of one of OF_RUNS in a run's configuration."""
    parts = (config, config.prompt, config.sampling, config.sampling.processors)
    return next(getattr(part, name) for part in parts if hasattr(part, name))
