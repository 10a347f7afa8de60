"""How to repeat the runs of a comparison: the command line with their exact settings. Values in, text out; no gradio, no store."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from mars_core.models import CATALOG
from mars_core.types import DraftMode, RunConfig
from ui.settings.form import CUSTOM, thinking_word
from ui.settings.stored import named, pair_key

PROGRAM = "python -m mars_core"
_UNPRINTABLE = "The prompt has characters that a command line cannot carry, so that no command repeats this run."
_CONTINUED = "This run continues from a token that was chosen by hand; no command repeats that."


def repeat_text(configs: Sequence[RunConfig]) -> str:
    """The commands, one a line; a sentence where a run cannot be repeated so. ``configs`` by lane."""
    return "\n".join(_lines(configs))


def _lines(configs: Sequence[RunConfig]) -> list[str]:
    if len(configs) > 1 and not any(map(_obstacle, configs)) and _one_command(configs):
        return [compare_command(configs)]
    lines = [f"# {_obstacle(config)}" if _obstacle(config) else run_command(config) for config in configs]
    return list(dict.fromkeys(lines))


def _obstacle(config: RunConfig) -> str:
    """Why no command line can ask for this run; empty where one can."""
    return _CONTINUED if config.prefix else "" if _printable(config) else _UNPRINTABLE


def _printable(config: RunConfig) -> bool:
    """A command line carries neither NUL nor half a surrogate pair, and ``-`` means standard input."""
    texts = (config.prompt.text, config.prompt.system, *config.prompt.stop)
    whole = all("\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text) for text in texts)
    return whole and config.prompt.text != "-"


def _one_command(configs: Sequence[RunConfig]) -> bool:
    """Whether all runs differ in their rules alone, each rule once and with parameters that do not contradict."""
    base = _richest(configs)
    names = [config.rule.name for config in configs]
    alike = all(
        replace(config, rule=base.rule, drafter=base.drafter, environment=base.environment, passes=base.passes) == base
        and (config.drafter == base.drafter or config.drafter.kind == "none")
        and _machine(config) == _machine(base)
        for config in configs
    )
    given = [item for config in configs for item in _parameters(config).items()]
    agree = len(dict(given)) == len(set(given))
    return alike and agree and len(set(names)) == len(names)


def compare_command(configs: Sequence[RunConfig]) -> str:
    """One command for all of them; strict runs in any case."""
    rules = [config.rule.name for config in configs if config.rule.name != "strict"]
    given = {name: value for config in configs for name, value in _parameters(config).items()}
    return _command("compare", _richest(configs), rules, given)


def run_command(config: RunConfig) -> str:
    """The command for one run."""
    return _command("run", config, [config.rule.name], _parameters(config))


def _parameters(config: RunConfig) -> dict[str, float]:
    return {name: float(value) for name, value in config.rule.parameters.items()}


def _richest(configs: Sequence[RunConfig]) -> RunConfig:
    """A run that drafted, if there is one: only it names the drafter."""
    return next((config for config in configs if config.drafter.kind != "none"), configs[0])


def _command(name: str, config: RunConfig, rules: Sequence[str], parameters: dict[str, float]) -> str:
    prompt, sampling = config.prompt, config.sampling
    words = [f"--prompt={prompt.text}", *(f"--rule={rule}" for rule in rules)]
    words += [f"--set={key}={value!r}" for key, value in parameters.items()]
    words += [f"--system={prompt.system}"] if prompt.system else []
    words += [] if prompt.chat else ["--no-chat"]
    words += [] if prompt.thinking is None else [f"--thinking={thinking_word(prompt.thinking)}"]
    words += [f"--stop={stop}" for stop in prompt.stop]
    words += _models(config) + _draft(config)
    words += [f"--temperature={sampling.temperature!r}", f"--top-k={sampling.top_k}", f"--top-p={sampling.top_p!r}"]
    words += [f"--max-new-tokens={config.max_new_tokens}", f"--seed={config.seed}", *_machine(config)]
    return " ".join([PROGRAM, name, *map(shlex.quote, words)])


def _models(config: RunConfig) -> list[str]:
    key, drafter = pair_key(config, CATALOG), config.drafter
    words = [f"--target={named(config.target)}"] if key == CUSTOM else [f"--pair={key}"]
    if drafter.kind == "ngram":
        return [*words, "--drafter=ngram"]
    if key != CUSTOM or drafter.model is None:
        return [*words, *(["--drafter=eagle3"] if drafter.kind == "eagle3" else [])]
    return [*words, f"--drafter={'eagle3:' if drafter.kind == 'eagle3' else ''}{named(drafter.model)}"]


def _draft(config: RunConfig) -> list[str]:
    drafter, tree = config.drafter, config.drafter.tree
    if drafter.kind == "none":
        return []
    if tree is not None:
        return [f"--tree-tokens={tree.tokens}", f"--tree-depth={tree.depth}", f"--tree-top-k={tree.top_k}"]
    chain = ["--chain"] if drafter.kind == "eagle3" else []
    mode = [f"--draft-mode={drafter.mode.value}"] if drafter.mode is not DraftMode.GREEDY else []
    return [*chain, f"--k={drafter.k}", *mode]


def _machine(config: RunConfig) -> list[str]:
    device = config.environment.get("device", "").partition(" ")[0]
    dtype = config.environment.get("dtype", "")
    words = [f"--{name}={value}" for name, value in (("device", device), ("dtype", dtype)) if value]
    exact, automatic = config.passes is not None, device.startswith("cuda") or dtype != "float32"
    return [*words, *([f"--exact={'on' if exact else 'off'}"] if device and dtype and exact is not automatic else [])]
