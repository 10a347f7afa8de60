"""Reads lm-eval's ``--model_args`` and a task's ``generation_kwargs``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mars_core.models import ModelError
from mars_core.rules import PLAIN
from mars_core.settings import KINDS, PROCESSORS, LaneSettings, Settings, rule_named
from mars_core.settings.kind import (
    Flag,
    Number,
    SettingKind,
    Text,
    Whole,
    Words,
)
from mars_core.settings.setting import checked, kinds, setting
from mars_core.types import Processors, RuleConfig, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Arguments of lm-eval beside the settings of a run."""

    max_length: int | None = setting(None, Whole("tokens of prompt and answer", 1))
    enable_thinking: bool | None = setting(None, Flag("an argument of some chat templates"))
    think_end_token: str = setting("", Text("the answer is what follows the last one"))
    batch_size: str = setting("1", Text("lm-eval's: a number or auto"))
    db: str = setting("", Text("URL of a database for the runs"))
    telemetry: str = setting("", Text("a folder"))

    def __post_init__(self) -> None:
        checked(self)


_SETTINGS = (
    *("pair", "target", "classifier", "drafter", "k", "draft_mode", "tree"),
    *("protect", "max_new_tokens", "seed", "device", "dtype", "graphs"),
)
NAMES = (*_SETTINGS, "rule", *kinds(Extras))
_LM_EVAL = ("max_batch_size", "model")  # set by lm-eval
_OTHER_NAMES = {"pretrained": "target", "max_gen_toks": "max_new_tokens"}
_MAY_BE_NONE = ("rule", "drafter", "protect")  # lm-eval parses the word none as None
# Arguments of other models, accepted with these values only.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "use_cache": (True,),
    "early_stopping": (True, False),
}
_WORDS = ("sequence_bias", "bad_words_ids")
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_KINDS: Mapping[str, SettingKind] = {  # of a task's generation_kwargs, of any range
    "until": Words("stop strings"),
    "do_sample": Flag("draw tokens"),
    **dict.fromkeys(_LENGTHS, Whole("new tokens")),
    **{
        name: (Whole if isinstance(KINDS[name], Whole) else Number)(KINDS[name].help)
        for name in (*PROCESSORS[:6], "temperature", "top_k", "top_p")
    },
}
_KNOWN = ", ".join(
    ("until, do_sample, temperature, top_k, top_p, max_gen_toks", *PROCESSORS[:6], *_WORDS)
)


class OptionError(ValueError):
    """Options that cannot be run, in one sentence."""


@contextmanager
def refused() -> Iterator[None]:
    """Converts ValueError to OptionError, so that the command prints its message only."""
    try:
        yield
    except ModelError:
        raise
    except ValueError as error:
        raise OptionError(str(error)) from None


class HarnessOptions(NamedTuple):
    """``seed``: None is lm-eval's own."""

    settings: Settings
    seed: int | None
    extras: Extras


def read_options(arguments: Mapping[str, Any]) -> HarnessOptions:
    """Read lm-eval's ``--model_args``; what is no name of NAMES is a parameter of the rule. Raises
    OptionError for an unknown name and a value of the wrong kind."""
    named: dict[str, Any] = {
        _OTHER_NAMES.get(name, name): PLAIN if value is None else value
        for name, value in arguments.items()
        if name not in _LM_EVAL and (value is not None or name in _MAY_BE_NONE)
    }
    own = {name: named.pop(name) for name in kinds(Extras) if name in named}
    own |= {name: str(own[name]) for name in ("batch_size",) if name in own}
    chosen = {name: named.pop(name) for name in _SETTINGS if name in named}
    words = {name: str(chosen[name]).split() for name in ("protect",) if name in chosen}
    with refused():
        rule = rule_named(named.pop("rule", "mars"))
        for name, value in named.items():
            if name not in (known := [each.name for each in rule.settable]):
                raise OptionError(
                    f"{name} is not an argument of the model mars with rule {rule.name}; it takes "
                    f"{', '.join((*known, *NAMES))}."
                )
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise OptionError(f"{name} is {value!r}; it must be a number or an expression.")
        rule.values(named)
        lane = LaneSettings(RuleConfig(rule.name, named))
        settings = Settings(**{"max_new_tokens": 256} | chosen | words, rules=(lane,))
        return HarnessOptions(settings, settings.seed if "seed" in chosen else None, Extras(**own))


class Generation(NamedTuple):
    """``until``: strings that end the answer and are removed from it, including the text of the end
    token."""

    sampling: Sampling
    max_new_tokens: int
    until: tuple[str, ...]


def read_generation(
    settings: Mapping[str, Any], eos: str | None, max_new_tokens: int
) -> Generation:
    """Read as in lm-eval's model ``hf``: without ``do_sample`` a temperature above 0 samples;
    ``do_sample: false`` is greedy.

    Raises OptionError for an argument that this engine does not have.
    """
    from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs

    read = {name: _setting(name, value) for name, value in settings.items() if value is not None}
    named: dict[str, Any] = dict(normalize_gen_kwargs(read, max_new_tokens))
    until = handle_stop_sequences(named.pop("until"), eos)
    length, temperature = named.pop("max_gen_toks"), read.get("temperature", 1.0)
    samples = named.pop("do_sample") or (temperature < 0 and "do_sample" not in read)
    named.pop("temperature", None)
    top_k, top_p = max(0, named.pop("top_k", 0)), named.pop("top_p", 1.0)
    numbers = {name: named.pop(name) for name in PROCESSORS if name in named}
    words = _biases(*(named.pop(name, ()) for name in _WORDS))
    for name, value in named.items():
        if value is not None and value not in _NEUTRAL.get(name, ()):
            raise OptionError(f"The task sets {name}={value!r}; the model mars takes {_KNOWN}.")
    processors = Processors(**numbers, logit_bias=words)
    sampling = Sampling(temperature, top_k, top_p) if samples else Sampling()
    return Generation(
        replace(sampling, processors=processors), length, tuple(stop for stop in until if stop)
    )


def _setting(name: str, value: Any) -> Any:
    """Read a value of ``generation_kwargs``; numbers may be texts, as YAML reads 1e-5. Raises
    OptionError, without regard to the range of a number."""
    if name == "until":  # lm-eval's lists may have None
        value = [each for each in (value if isinstance(value, list | tuple) else [value]) if each]
    with refused():
        read = _KINDS[name].read(value, name) if name in _KINDS else value
    return list(read) if name == "until" else read


def _biases(sequence_bias: Any, bad_words_ids: Any) -> tuple[tuple[str, float], ...]:
    """Return the biases as ``generate`` takes them. Raises OptionError for something else."""
    pairs = sequence_bias.items() if isinstance(sequence_bias, Mapping) else sequence_bias
    try:
        biases = [
            *((ids, float(bias)) for ids, bias in pairs),
            *((ids, -math.inf) for ids in bad_words_ids),
        ]
        if all(ids and all(type(each) is int and each >= 0 for each in ids) for ids, _ in biases):
            return tuple((str(list(ids)), bias) for ids, bias in biases)
    except (TypeError, ValueError):
        pass
    raise OptionError(
        f"sequence_bias is {sequence_bias!r} and bad_words_ids {bad_words_ids!r}; they must be a "
        "list of pairs [ids, bias] and one of lists of ids, whole numbers from 0 on."
    )


def seed_of(seed: int, request: Any, repeat: int) -> int:
    """Return a separate seed for every answer to an lm-eval Instance, so that two documents do not
    share their random draws."""
    key = f"{seed}/{request.task_name}/{request.doc_id}/{request.idx}/{repeat}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big")
