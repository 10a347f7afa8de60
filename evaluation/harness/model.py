"""lm-eval's model ``mars``: answers of this engine, one at a time, with what each took. Scores nothing, and ranks no given answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn, Self

import jinja2
import torch
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import postprocess_generated_text
from lm_eval.utils import hash_string, simple_parse_args_string
from tqdm.auto import tqdm

from evaluation.harness.options import Generation, Options, Refused, read_generation, read_options, refusals, seed_of
from evaluation.harness.processes import Processes
from evaluation.harness.telemetry import Row, Telemetry, pooled, row_of
from mars_core.arguments import read_drafter, read_spec
from mars_core.models import ModelPool, Pair
from mars_core.rules import PLAIN
from mars_core.session import Run, Session, run_config
from mars_core.text.prompting import encode, thinking_switch
from mars_core.types import DrafterConfig, PromptConfig, RunConfig, Trace
from mars_core.validation import validate, validate_length
from storage import RunStore, Source

LARGEST_SEED = 2**53 - 1


class MarsLM(TemplateLM):  # type: ignore[misc]  # lm-eval ships no types
    """One pair of models with one rule and drafter. ``telemetry``: a row for every answer, those of all processes at the first one."""

    def __init__(self, **given: Any) -> None:
        """``given``: names of ``options.NAMES`` and parameters of the rule. Raises Refused, ModelError, StorageError."""
        super().__init__()
        self.options = read_options(given)
        self._processes = Processes(self.options.device)
        self.pair = _load(self.options, self._processes.device)
        self.tokenizer = self.pair.tokenizer
        self._rank, self._world_size, self._device = self._processes.rank, self._processes.size, self.pair.device
        self._seed = torch.initial_seed() % LARGEST_SEED if self.options.seed is None else self.options.seed
        self._file = Telemetry(self.options.telemetry, self.rank if self.world_size > 1 else None)
        self._store = None if self.options.db is None else RunStore(self.options.db)
        self._warm = False
        self.telemetry: list[Row] = []
        self._check()

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> Self:
        """From lm-eval's ``--model_args`` and the options beside it, of which the former win: lm-eval always names a device."""
        beside = {name: value for name, value in (additional_config or {}).items() if value is not None}
        if not torch.cuda.is_available() and str(beside.get("device")).startswith("cuda"):
            del beside["device"]
        return cls(**beside | arg_dict)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> Self:
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The answers, in order. The draws of an answer depend on seed, task, document and repeat, not on the number of processes."""
        bar = tqdm(total=len(requests), disable=disable_tqdm or self.rank != 0, desc="Running generate_until requests")
        seen: Counter[int] = Counter()
        answers: dict[int, str] = {}  # the latest of each request
        found: list[str] = []
        for request in requests:
            number = seen[id(request)]
            seen[id(request)] += 1
            if number < request.repeats:  # beyond that, lm-eval only fills up so that all processes have equally many
                answers[id(request)] = self._answer(request, number)
            found.append(answers[id(request)])
            bar.update(1)
        bar.close()
        self._gather()
        return found

    def _answer(self, request: Any, repeat: int) -> str:
        context, given = request.args
        generation = read_generation(given, self._eos, self.options.max_new_tokens)
        config = self._config(context, generation, seed_of(self._seed, request, repeat))
        ids, cut = self._read(config)
        if not self._warm:
            Session(self.pair).warm_up(replace(config, prompt=replace(config.prompt, text=_short(context))))
            self._warm = True
        run = Run(self.pair, config, tuple(ids), meter=True)
        for _ in run:
            pass
        trace = run.trace()
        answer = str(postprocess_generated_text(trace.text, list(generation.until), self.options.think_end_token))
        self._file.add(self._row(request, repeat, trace, cut))
        self.cache_hook.add_partial("generate_until", (context, given), answer)
        return answer

    def _row(self, request: Any, repeat: int, trace: Trace, cut: int) -> Row:
        return row_of(
            trace,
            task=request.task_name,
            doc_id=request.doc_id,
            repeat=repeat,
            prompt_hash=hash_string(request.args[0]),
            rank=self.rank,
            cut_tokens=cut,
            run_id=self._save(trace),
        )

    def _save(self, trace: Trace) -> str | None:
        """The id of the stored run, which is a comparison of its own; None without a database. Raises StorageError."""
        if self._store is None:
            return None
        comparison = self._store.new_comparison(trace.config.prompt, source=Source.STUDY)
        return self._store.save_run(comparison, trace, lane=0, order=0)

    def _config(self, context: str, generation: Generation, seed: int) -> RunConfig:
        """The context is what lm-eval has made of it, chat template and examples included: it is read as it is."""
        return run_config(
            self.pair,
            prompt=PromptConfig(context, chat=False, stop=generation.until),
            rule=self.options.rule_config,
            drafter=DrafterConfig(PLAIN) if self.options.rule == PLAIN else read_drafter(self.options, self.pair),
            sampling=generation.sampling,
            max_new_tokens=generation.max_new_tokens,
            seed=seed,
        )

    def _read(self, config: RunConfig) -> tuple[list[int], int]:
        """Ids of the prompt, and how many were cut from its beginning so that the answer has room, as the model ``hf`` does."""
        ids = encode(self.tokenizer, config.prompt)
        room = self.max_length - config.max_new_tokens
        if room < 1:
            raise Refused(
                f"max_gen_toks is {config.max_new_tokens}; with a prompt of at least 1 token it must be 1 to {self.max_length - 1}, "
                "less than the context of these models."
            )
        with refusals():
            validate(config, self.pair)
            validate_length(config, min(len(ids), room), self.max_length)
        return ids[-room:], max(0, len(ids) - room)

    def _gather(self) -> None:
        rows = self.gather_object(self._file.rows)
        self.telemetry = [row for rank in rows for row in rank] if rows is not None else self._file.rows

    def _check(self) -> None:
        """Raises Refused for settings that no task can make valid."""
        config = self._config("x", read_generation({}, None, 1), 0)
        with refusals():
            validate(config, self.pair)

    # What lm-eval asks of a model: its tokenizer, its place among the processes, what to write into the results.

    @property
    def _eos(self) -> str | None:
        return None if self.eot_token_id is None else str(self.tokenizer.decode(self.eot_token_id))

    @property
    def eot_token_id(self) -> int | None:
        found: int | None = self.tokenizer.eos_token_id
        return found

    @property
    def max_length(self) -> int:
        """Tokens of prompt and answer together."""
        return min(self.pair.context, self.options.max_length or self.pair.context)

    @property
    def max_gen_toks(self) -> int:
        return int(self.options.max_new_tokens)

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The conversation as the model's template writes it; where the template knows no system prompt, without one."""
        if not self.tokenizer.chat_template:
            raise Refused(f"{self.pair.target_ref.name} has no chat template; leave out --apply_chat_template.")
        with refusals():
            options: dict[str, Any] = thinking_switch(self.tokenizer, self.options.enable_thinking)
        options |= {"add_generation_prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
        try:
            return str(self.tokenizer.apply_chat_template(chat_history, tokenize=False, **options))
        except jinja2.TemplateError:
            rest = [message for message in chat_history if message["role"] != "system"]
            return str(self.tokenizer.apply_chat_template(rest, tokenize=False, **options))

    def get_model_info(self) -> dict[str, Any]:
        """For the ``config`` of lm-eval's results; ``mars`` has the telemetry of all answers, pooled."""
        return {
            "model_num_parameters": self.pair.target.num_parameters(),
            "model_dtype": str(self.pair.dtype),
            "model_revision": self.pair.target_ref.revision or "",
            "model_sha": self.pair.target_ref.revision or "",
            "mars": {"device": str(self.device), **pooled(self.telemetry)},
        }

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_kwargs: Any) -> list[int]:
        if add_special_tokens is None:
            return encode(self.tokenizer, PromptConfig(string, chat=False))
        return list(self.tokenizer.encode(string, add_special_tokens=add_special_tokens))

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._processes.gather(tensor)

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        return self._processes.gather_objects(obj, dst)

    def barrier(self) -> None:
        self._processes.wait()

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> NoReturn:
        raise NotImplementedError(_ONLY_ANSWERS)

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> NoReturn:
        raise NotImplementedError(_ONLY_ANSWERS)

    def _loglikelihood_tokens(self, requests: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(_ONLY_ANSWERS)


_ONLY_ANSWERS = (
    "The model mars writes answers and does not rate given ones, which no verification rule would change: use a task with "
    "output_type generate_until, or lm-eval's model hf."
)


def _load(options: Options, device: str) -> Pair:
    with refusals():
        pool = ModelPool(device=device, dtype=options.dtype, graphs=options.graphs, exact=options.exact)
        return pool.get(read_spec(options))


def _short(context: str) -> str:
    return context[:200] or "x"
