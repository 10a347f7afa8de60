"""The endpoints for programs: ``gradio_client``, plain HTTP, and MCP where it is switched on. Their docstrings are the reference.

No deferred annotations in this file: gradio reads the types of the endpoints as they are.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr
from gradio.events import api as endpoint

from mars_core.models import PairSpec
from mars_core.types import RunConfig
from storage import StoredComparison
from ui.api.documents import (
    Document,
    comparison_document,
    divergence_documents,
    finite,
    pair_documents,
    rule_documents,
    token_documents,
)
from ui.api.values import (
    AUTO,
    choose_pair,
    read_drafter,
    read_flag,
    read_ids,
    read_rules,
    read_text,
    read_texts,
    read_whole,
)
from ui.jobs.admission import REFUSALS
from ui.jobs.api_run import Progress, compare
from ui.kit.told import told
from ui.services import Services
from ui.settings.form import Form, read_configs, thinking_word
from ui.tabs.compare.running import COMPUTES

if TYPE_CHECKING:
    from mars_core.models import Pair

DEFAULT_RULES = ["strict", "mars(theta=0.9)"]
MOST_ROWS = 200  # comparisons a call
Made = TypeVar("Made")


@contextmanager
def _told(place: Services) -> Iterator[None]:
    """What is wrong with a request reaches its sender as one sentence, and no traceback the log."""
    try:
        yield
    except OverflowError as error:
        raise gr.Error("A number is too large.", print_exception=False) from error
    except REFUSALS as error:
        raise gr.Error(told(error, public=place.public), print_exception=False) from error


class Api:
    """The endpoints over one services."""

    def __init__(self, services: Services) -> None:
        self._workplace = services

    def compare(
        self, prompt: str, rules: list[str] = DEFAULT_RULES, pair: str = "", drafter: str = AUTO, k: int = 5,
        temperature: float = 0.0, max_new_tokens: int = 128, seed: int = 0, system: str = "", chat: bool = True,
        draft_mode: str = "greedy", tree: str = "", top_k: int = 0, top_p: float = 1.0, stop: list[str] | None = None,
        prefix: list[int] | None = None, thinking: bool | None = None, request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        """
        Decode one prompt with 1 to 4 verification rules, one run after the other, and compare every run with the first.
        The comparison is saved to History. While it runs, documents with state "running" report progress; the last one is the result.

        Args:
            prompt: what the target model shall continue or answer
            rules: rules in order, the first is the baseline, e.g. ["strict", "mars(theta=0.9)"]; "none" is the target alone
            pair: key of a model pair, see /pairs; empty for the first one
            drafter: where drafts come from: model, eagle3, ngram or none; auto for the pair's first
            k: drafted tokens a step, 1 to 64; a draft tree has its own size
            temperature: 0 is greedy
            max_new_tokens: the longest output, in tokens
            seed: of the uniforms; the same seed and settings give the same text
            system: system prompt; may be empty
            chat: use the tokenizer's chat template, where it has one
            draft_mode: greedy or sampled; sampled needs drafter model
            tree: of an EAGLE-3 head: drafted tokens, depth and top-k, e.g. 12,6,2; chain for a chain of k; empty for the pair's own
            top_k: keep the k likeliest tokens only; 0 is off
            top_p: keep the likeliest tokens of this total probability only; 1 is off
            stop: strings that end the text
            prefix: ids of output tokens that are given; the runs go on after them
            thinking: whether the model thinks before it answers, where its chat template has that switch; null is the model's default

        Returns:
            id, prompt and, for each run: text, token ids, tokens_per_s, tau, counts, TV, KL, first divergence from the first run
        """
        place = self._workplace.seen_by(request)
        with _told(place):
            if not read_text(prompt, "prompt").strip():
                raise ValueError("prompt is empty; it needs at least 1 character that is no space.")
            spec = choose_pair(pair, place.catalog)
            form = Form(
                prompt=prompt, pair=spec.key, temperature=temperature, k=k,
                max_new_tokens=max_new_tokens, seed=seed, lanes=read_rules(rules), system=read_text(system, "system"),
                chat=read_flag(chat, "chat"), top_k=top_k, top_p=top_p, mode=draft_mode,
                thinking=thinking_word(None if thinking is None else read_flag(thinking, "thinking")), **read_drafter(drafter, tree, spec),
            )  # fmt: skip
            yield from self._compare(place, spec, form, read_texts(stop, "stop"), read_ids(prefix))

    def _compare(
        self, place: Services, spec: PairSpec, form: Form, stop: tuple[str, ...], prefix: tuple[int, ...]
    ) -> Iterator[Document]:
        def read(pair: "Pair") -> list[RunConfig]:
            return [_with(config, stop, prefix) for config in read_configs(form, pair)]

        place.limits.check_prompt(form.prompt, form.system, *stop)
        running = compare(place, spec, len(form.lanes), form.max_new_tokens, read)
        comparison = yield from _documents(running)
        yield comparison_document(place.store.load(comparison))

    def rules(self) -> list[dict[str, Any]]:
        """
        List the verification rules: name, what each does, its formula, its parameters with ranges and defaults, and its source.

        Returns:
            one object a rule
        """
        return rule_documents()

    def pairs(self) -> list[dict[str, Any]]:
        """
        List the model pairs: key, target, draft model or head, sizes, drafters, example prompts, and whether the pair fits here.

        Returns:
            one object a pair
        """
        return pair_documents(self._workplace.catalog, self._workplace.pool, public=self._workplace.public)

    def comparisons(
        self, limit: int = 20, offset: int = 0, batches: bool = False, request: gr.Request | None = None
    ) -> list[dict[str, Any]]:
        """
        List saved comparisons, latest first: id, time, prompt, and the rules, status, tokens/s and tau of their runs.

        Args:
            limit: how many, 1 to 200
            offset: how many later ones to skip
            batches: those of sweeps and studies too

        Returns:
            one object a comparison
        """
        place = self._workplace.seen_by(request)
        with _told(place):
            limit, offset = read_whole(limit, "limit", 1, MOST_ROWS), read_whole(offset, "offset", 0, 10**9)
            frame = place.store.comparisons(limit=limit, offset=offset, batches=read_flag(batches, "batches"))
            columns = ("id", "prompt", "target", "rules", "status", "new_tokens", "tokens_per_s", "tau")
            rows = frame.to_dict("records")
            return [
                finite({"created_at": row["created_at"].isoformat()} | {name: row[name] for name in columns})
                for row in rows
            ]

    def comparison(self, id: str, request: gr.Request | None = None) -> dict[str, Any]:
        """
        A saved comparison, as /compare returned it.

        Args:
            id: of the comparison

        Returns:
            id, prompt and runs
        """
        place = self._workplace.seen_by(request)
        with _told(place):
            return comparison_document(_load(place, id))

    def divergences(self, id: str, baseline: int = 0, request: gr.Request | None = None) -> list[dict[str, Any]]:
        """
        Where the runs of a saved comparison leave its baseline: output position, cause, the text before, and the tokens of both.

        Args:
            id: of the comparison
            baseline: lane of the run that the others are compared with, from 0

        Returns:
            one object for every other run; position and cause are null where the texts are the same
        """
        place = self._workplace.seen_by(request)
        with _told(place):
            return divergence_documents(_load(place, id), read_whole(baseline, "baseline", 0, 10**6))

    def tokens(self, id: str, lane: int = 0, request: gr.Request | None = None) -> list[dict[str, Any]]:
        """
        Every token of a saved run: outcome, probabilities p and q, margin r, rank, entropy, TV, KL, alternatives. Refused tokens included.

        Args:
            id: of the comparison
            lane: of the run, from 0

        Returns:
            one object a token, in order
        """
        place = self._workplace.seen_by(request)
        with _told(place):
            return token_documents(_load(place, id), read_whole(lane, "lane", 0, 10**6))


def _load(place: Services, id: object) -> StoredComparison:
    return place.store.load(read_text(id, "id"))


def _documents(work: Generator[Progress, None, Made]) -> Generator[Document, None, Made]:
    """Progress as documents; returns what ``work`` returns."""
    told: list[Made] = []

    def kept() -> Iterator[Progress]:
        told.append((yield from work))

    yield from (progress.document() for progress in kept())
    return told[0]


def _with(config: RunConfig, stop: tuple[str, ...], prefix: tuple[int, ...]) -> RunConfig:
    return replace(config, prompt=replace(config.prompt, stop=stop), prefix=prefix)


def build_api(services: Services) -> None:
    """Adds the endpoints to the Blocks under construction, to be called before any other event is wired: names are given in turn.

    They are the only public ones of the page.
    """
    api = Api(services)
    endpoint(api.compare, api_name="compare", **COMPUTES)
    quick: tuple[Callable[..., Any], ...] = (
        api.rules, api.pairs, api.comparisons, api.comparison, api.divergences, api.tokens,
    )  # fmt: skip
    for function in quick:
        endpoint(function, api_name=function.__name__)
