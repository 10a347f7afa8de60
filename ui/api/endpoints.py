"""The endpoints for programs: ``gradio_client``, plain HTTP, and MCP where it is switched on. Their
docstrings are the reference.

No deferred annotations in this file: gradio reads the types of the endpoints as they are.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.events import api as endpoint

from display.format import plural
from mars_core.jobs import Wrote
from ui.api import documents
from ui.api.documents import Document
from ui.api.values import AUTO, ComparisonRequest, Lookup, Page
from ui.jobs.admission import JobError, job_errors
from ui.jobs.driver import Batch, DriverEvent, Ready, Saved, Started, Waiting, drive
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.labels import lane_label
from ui.settings.admission import admit
from ui.settings.form import Form
from ui.settings.readers import read_configs

if TYPE_CHECKING:
    from mars_core.session import Session

DEFAULT_RULES = ["strict", "mars(theta=0.9)"]


class Api:
    def __init__(self, services: Services) -> None:
        self._services = services

    @contextmanager
    def _for_visitor(self, request: gr.Request | None) -> Iterator[Services]:
        """The services of the request's visitor. Errors of a request become one sentence for its
        sender, without a traceback in the log."""
        services = self._services.for_visitor(request)
        try:
            with job_errors(services):
                yield services
        except JobError as error:
            raise gr.Error(str(error), print_exception=False) from error

    def compare(
        self,
        prompt: str,
        rules: list[str] = DEFAULT_RULES,
        pair: str = "",
        drafter: str = AUTO,
        k: int | None = None,
        temperature: float = 0.0,
        max_new_tokens: int = 128,
        seed: int = 0,
        system: str = "",
        chat: bool = True,
        draft_mode: str = "coupled",
        tree: str = "",
        top_k: int = 0,
        top_p: float = 1.0,
        stop: list[str] | None = None,
        prefix: list[int] | None = None,
        thinking: bool | None = None,
        repeats: int = 1,
        processors: dict[str, Any] | None = None,
        target: str = "",
        draft: str = "",
        head: str = "",
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """
        Decode one prompt with 1 to 4 verification rules, one run after the other, and compare every run with the first.
        The comparison is saved to History. While it runs, documents with state "running" report progress; the last one is the result.

        Args:
            prompt: what the target model shall continue or answer
            rules: rules in order, the first is the baseline, e.g. ["strict", "mars(theta=0.9)"]; "none" is the target alone
            pair: key of a model pair, see /pairs; empty for the first one
            drafter: where drafts come from: one of the pair's drafters, see /pairs; auto for the first
            k: drafted tokens a step, 1 to 64; null is the pair's own; a draft tree has its own size
            temperature: 0 is greedy
            max_new_tokens: the longest output, in tokens
            seed: of all random numbers; the same seed and settings give the same text
            system: system prompt; may be empty
            chat: use the tokenizer's chat template, where it has one
            draft_mode: coupled, greedy or sampled; sampled needs drafter model
            tree: of an EAGLE-3 head: drafted tokens, depth and top-k, e.g. 12,6,2; chain for a chain of k; empty for the pair's own
            top_k: keep the k likeliest tokens only; 0 is off
            top_p: keep the likeliest tokens of this total probability only; 1 is off
            stop: strings that end the text
            prefix: ids of output tokens that are given; the runs go on after them
            thinking: whether the model thinks before it answers, where its chat template has that switch; null is the model's default
            repeats: runs of every rule, in turns, to measure the time: 1 to 20; texts and counts are the first one's
            processors: min_p, typical_p, repetition_, presence_, frequency_penalty, no_repeat_ngram_size, logit_bias, banned, protect
            target: a model of your own in place of a pair, where the host allows it: Hub id, folder or GGUF file
            draft: a draft model for it; may be empty
            head: an EAGLE-3 head for it; may be empty

        Returns:
            id, prompt and, for each run: text, token ids, speeds, speed_ratio with its interval, tau, counts, TV, KL, first divergence
        """
        with self._for_visitor(request) as services:
            values = ComparisonRequest.read(
                prompt=prompt,
                rules=rules,
                pair=pair,
                target=target,
                draft=draft,
                head=head,
                drafter=drafter,
                k=k,
                temperature=temperature,
                max_new_tokens=max_new_tokens,
                seed=seed,
                system=system,
                chat=chat,
                draft_mode=draft_mode,
                tree=tree,
                top_k=top_k,
                top_p=top_p,
                stop=stop,
                prefix=prefix,
                thinking=thinking,
                repeats=repeats,
                processors=processors,
            )
            form = values.form(services)
            services.limits.check_prompt(*values.stop, form.prompt, form.system)
            with closing(_jobs(services, form, values)) as events:
                comparison = yield from _progress(events)
            yield documents.comparison_document(services.store.load(comparison))

    def rules(self) -> list[dict[str, Any]]:
        """
        List the verification rules: name, what each does, its formula, its parameters with ranges and defaults, and its source.

        Returns:
            one object a rule
        """
        return documents.rule_documents()

    def pairs(self) -> list[dict[str, Any]]:
        """
        List the model pairs: key, target, draft model or head, sizes, drafters, example prompts, and whether the pair fits here.

        Returns:
            one object a pair
        """
        return documents.pair_documents(
            self._services.catalog, self._services.pool, public=self._services.public
        )

    def comparisons(
        self,
        limit: int = 20,
        offset: int = 0,
        batches: bool = False,
        request: gr.Request | None = None,
    ) -> list[dict[str, Any]]:
        """
        List saved comparisons, latest first: id, time, prompt, and the rules, status, tokens/s and tau of their runs.

        Args:
            limit: how many, 1 to 200
            offset: how many later ones to skip
            batches: those of studies too

        Returns:
            one object a comparison
        """
        with self._for_visitor(request) as services:
            page = Page.read(limit=limit, offset=offset, batches=batches)
            frame = services.store.comparisons(
                limit=page.limit, offset=page.offset, batches=page.batches
            )
            return [documents.comparison_row(row) for row in frame.to_dict("records")]

    def comparison(self, id: str, request: gr.Request | None = None) -> dict[str, Any]:
        """
        A saved comparison, as /compare returned it.

        Args:
            id: of the comparison

        Returns:
            id, prompt and runs
        """
        with self._for_visitor(request) as services:
            return documents.comparison_document(services.store.load(Lookup.read(id=id).id))

    def divergences(
        self, id: str, baseline: int = 0, request: gr.Request | None = None
    ) -> list[dict[str, Any]]:
        """
        Where the runs of a saved comparison leave its baseline: output position, cause, the text before, and the tokens of both.

        Args:
            id: of the comparison
            baseline: lane of the run that the others are compared with, from 0

        Returns:
            one object for every other run; position and cause are null where the texts are the same
        """
        with self._for_visitor(request) as services:
            values = Lookup.read(id=id, baseline=baseline)
            return documents.divergence_documents(services.store.load(values.id), values.baseline)

    def tokens(
        self, id: str, lane: int = 0, request: gr.Request | None = None
    ) -> list[dict[str, Any]]:
        """
        Every token of a saved run: outcome, probabilities p and q, margin r, rank, entropy, TV, KL, alternatives. Refused tokens included.

        Args:
            id: of the comparison
            lane: of the run, from 0

        Returns:
            one object a token, in order
        """
        with self._for_visitor(request) as services:
            values = Lookup.read(id=id, lane=lane)
            return documents.token_documents(services.store.load(values.id), values.lane)


def _jobs(
    services: Services, form: Form, values: ComparisonRequest
) -> Generator[DriverEvent, None, None]:
    def read(session: "Session") -> Iterable[Batch]:
        configs = tuple(
            replace(config, prompt=replace(config.prompt, stop=values.stop), prefix=values.prefix)
            for config in read_configs(form, session.pair)
        )
        return [Batch(configs, services.rounds(len(configs), repeats))]

    spec, repeats = admit(services, form), values.repeats
    return drive(
        services,
        services.key,
        spec,
        read,
        runs=repeats * len(form.lanes),
        new_tokens=form.max_new_tokens,
    )


def _progress(events: Iterator[DriverEvent]) -> Generator[Document, None, str]:
    """Documents that say where a comparison stands; returns its id. Raises JobError where a run did
    not begin or was not saved."""
    batch, comparison, run_index, tokens = Batch((), ()), "", 0, 0

    def running(message: str, progress: float = 0.0) -> Document:
        return {
            "id": comparison or None,
            "state": "running",
            "progress": progress,
            "message": message,
        }

    for event in events:
        match event:
            case Waiting(message):
                yield running(message)
            case Ready():
                batch = event.batch
                yield running("Warming up")
            case Started():
                comparison, run_index, tokens = event.comparison, event.turn, 0
            case Wrote():
                tokens += sum(len(step.emitted) for step in event.steps)
                config, runs = batch.configs[event.run], len(batch.order)
                message = f"{lane_label(config)}, {tokens} of at most {plural(config.max_new_tokens, 'token')}"
                yield running(
                    f"Run {run_index + 1} of {runs}: {message}",
                    (run_index + tokens / config.max_new_tokens) / runs,
                )
            case Saved(error=error) if error:
                raise JobError(error)
    if not comparison:
        raise JobError("Stopped before the first run began.")
    return comparison


def build_api(services: Services) -> None:
    """Adds the endpoints to the Blocks under construction, to be called before any other event is
    wired: names are given in turn.

    They are the only public ones of the page.
    """
    api = Api(services)
    endpoint(api.compare, api_name="compare", **COMPUTES)
    for function in (
        api.rules,
        api.pairs,
        api.comparisons,
        api.comparison,
        api.divergences,
        api.tokens,
    ):
        endpoint(function, api_name=function.__name__)
