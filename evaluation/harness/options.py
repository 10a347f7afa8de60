"""Reads lm-eval's ``--model_args`` and a task's ``generation_kwargs``."""

from __future__ import annotations

import argparse
import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from mars_core.arguments import DRAFTER_OPTIONS, MACHINE_OPTIONS, PAIR_OPTIONS, OptionTable
from mars_core.models import CATALOG, ModelError
from mars_core.numbers import quoted, read_integer, read_number
from mars_core.rules import PLAIN, RULES
from mars_core.types import PROCESSORS, SPECIAL, Parameters, Processors, RuleConfig, Sampling

# Options specific to lm-eval; the others are those of ``mars``, with _ instead of -.
_TABLE: OptionTable = (
    PAIR_OPTIONS
    | DRAFTER_OPTIONS
    | MACHINE_OPTIONS
    | {
        "--protect": {"default": SPECIAL},  # words with spaces between them
        "--pair": PAIR_OPTIONS["--pair"] | {"choices": [spec.key for spec in CATALOG]},
        "--rule": {
            "default": "mars",
            "choices": list(RULES),
        },  # its parameters are further arguments
        "--graphs": {"type": bool, "default": True},
        "--seed": {"type": int},  # default: lm-eval's --seed
        "--max-new-tokens": {
            "type": int,
            "default": 256,
        },  # if the task does not set it; as in the model ``hf``
        "--max-length": {"type": int},  # tokens of prompt and answer; None: the models' own
        "--enable-thinking": {"type": bool},  # an argument of some chat templates
        "--think-end-token": {},  # the answer is what follows the last one
        "--batch-size": {"default": "1"},  # lm-eval's: a number or auto
        "--db": {},  # URL of a database for the runs
        "--telemetry": {},  # a folder
    }
)
_OPTIONS = {
    name[2:].replace("-", "_"): keywords
    for name, keywords in _TABLE.items()
    if name != "--no-graphs"
}
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
_INTEGERS = (
    *("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"),
    *("top_k", "no_repeat_ngram_size"),
)
_NUMBERS = ("temperature", "top_p", *PROCESSORS)
_LEAST = {"max_new_tokens": (1,), "max_length": (1,)}
_KNOWN = ", ".join(
    ("until, do_sample, temperature, top_k, top_p, max_gen_toks", *PROCESSORS, *_WORDS)
)


class OptionError(ValueError):
    """Options that cannot be run, in one sentence."""


@contextmanager
def checked() -> Iterator[None]:
    """Converts ValueError to OptionError, so that the command prints its message only."""
    try:
        yield
    except ModelError:
        raise
    except ValueError as error:
        raise OptionError(str(error)) from None


class HarnessOptions(argparse.Namespace):
    """The values by name (NAMES), as ``mars_core.arguments`` reads them, and the rule."""

    rule_config: RuleConfig


NAMES = tuple(_OPTIONS)


def read_options(arguments: Mapping[str, Any]) -> HarnessOptions:
    """The options of lm-eval's ``--model_args``. Raises OptionError for an unknown name and a value
    of the wrong kind."""
    named = {_OTHER_NAMES.get(name, name): value for name, value in arguments.items()}
    named |= {name: PLAIN for name in _MAY_BE_NONE if name in named and named[name] is None}
    named = {
        name: value for name, value in named.items() if name not in _LM_EVAL and value is not None
    }
    options = HarnessOptions(
        **{
            name: _value(name, keywords, named.pop(name, None))
            for name, keywords in _OPTIONS.items()
        }
    )
    options.rule_config = RuleConfig(options.rule, _parameters(options.rule, named))
    return options


def _value(name: str, keywords: Mapping[str, Any], value: Any) -> Any:
    flag = keywords.get("action") == "store_true"
    kind = bool if flag else keywords.get("type", str)
    if value is None:
        return keywords.get("default", False if flag else None)
    if kind is int:
        with checked():
            value = read_integer(value, name, *_LEAST.get(name, ()))
    elif kind is bool and not isinstance(value, bool):
        raise OptionError(f"{name} is {quoted(value)}; it must be true or false.")
    if value not in keywords.get("choices", [value]):
        raise OptionError(
            f"{name} is {value!r}; it must be one of {', '.join(keywords['choices'])}."
        )
    return kind(value)


def _parameters(rule: str, arguments: Mapping[str, Any]) -> Parameters:
    """Arguments that are not options are parameters of the rule."""
    known = [parameter.name for parameter in RULES[rule].settable]
    for name, value in arguments.items():
        if name not in known:
            takes = ", ".join((*known, *NAMES))
            raise OptionError(
                f"{name} is not an argument of the model mars with rule {rule}; it takes {takes}."
            )
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise OptionError(f"{name} is {value!r}; it must be a number or an expression.")
    with checked():
        return RULES[rule].values(arguments)


class Generation(NamedTuple):
    """``until``: strings that end the answer and are removed from it, including the text of the end
    token."""

    sampling: Sampling
    max_new_tokens: int
    until: tuple[str, ...]


def read_generation(
    settings: Mapping[str, Any], eos: str | None, max_new_tokens: int
) -> Generation:
    """As in lm-eval's model ``hf``: without ``do_sample`` a temperature above 0 samples;
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
    usual = Processors()
    numbers = {name: named.pop(name, getattr(usual, name)) for name in PROCESSORS}
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
    """A value of ``generation_kwargs``; numbers may be texts, as YAML reads 1e-5. Raises
    OptionError, without regard to the range of a number."""
    if name == "until":
        texts = value if isinstance(value, list | tuple) else [value]
        if not all(each is None or isinstance(each, str) for each in texts):
            raise OptionError(f"until is {value!r}; it must be a text or a list of texts.")
        return list(texts)
    if name == "do_sample":
        if value not in (True, False):
            raise OptionError(f"do_sample is {value!r}; it must be true or false.")
        return bool(value)
    with checked():
        if name in _INTEGERS:
            return read_integer(value, name)
        return read_number(value, name) if name in _NUMBERS else value


def _biases(sequence_bias: Any, bad_words_ids: Any) -> tuple[tuple[str, float], ...]:
    """As ``generate`` takes them. Raises OptionError for something else."""
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
    """A separate seed for every answer to an lm-eval Instance, so that two documents do not share
    their random draws."""
    key = f"{seed}/{request.task_name}/{request.doc_id}/{request.idx}/{repeat}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big")
