"""The endpoints for programs: ``gradio_client``, plain HTTP, and MCP where it is switched on. Their
docstrings are the reference.

No deferred annotations in this file: gradio reads the types of the endpoints as they are.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.events import api as endpoint

from display.format import plural
from mars_core.jobs import Wrote
from mars_core.numbers import read_integer
from mars_core.settings import Settings
from mars_core.settings.interface import declared
from mars_core.settings.kind import Flag, Text
from storage import Search, StoredComparison
from ui.api import documents
from ui.api.documents import Document
from ui.jobs.admission import JobError, admit, job_errors
from ui.jobs.driver import Batch, DriverEvent, Ready, Saved, Started, Waiting, drive
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.labels import lane_label
from ui.public.access import parse
from ui.settings.values import MOST_LANES

if TYPE_CHECKING:
    from mars_core.session import Session

DEFAULT_RULES = ["strict", "mars(theta=0.9)"]
MOST_ROWS = 200  # comparisons a call


class Api:
    def __init__(self, services: Services) -> None:
        self._services = services

    @contextmanager
    def _for_visitor(self, request: gr.Request | None) -> Iterator[Services]:
        """Return the services of the request's visitor. Errors of a request become one sentence for
        its sender, without a traceback in the log."""
        services = self._services.for_visitor(request)
        try:
            with job_errors(services):
                yield services
        except JobError as error:
            raise gr.Error(str(error), print_exception=False) from error

    @declared
    def compare(
        self,
        prompt: str,
        rules: list[str] = DEFAULT_RULES,
        request: gr.Request | None = None,
        **settings: Any,
    ) -> Iterator[dict[str, Any]]:
        """
        Decode one prompt with 1 to 4 verification rules, one run after the other, and compare every run with the first.
        The comparison is saved to History. While it runs, documents with state "running" report progress; the last one is the result.

        Args:
            prompt: what the target model shall continue or answer
            rules: rules in order, the first is the baseline, e.g. ["strict", "mars(theta=0.9)"]; "none" is the target alone
            **settings

        Returns:
            id, prompt and, for each run: text, token ids, speeds, speed_ratio with its interval, tau, counts, TV, KL, first divergence
        """
        with self._for_visitor(request) as services:
            wanted = Settings(prompt=prompt, rules=_rules(rules), **settings)
            with closing(_jobs(services, wanted)) as events:
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
            search = Search(
                limit=read_integer(limit, "limit", 1, MOST_ROWS),
                offset=read_integer(offset, "offset", 0, 10**9),
                without_batches=not Flag("").read(batches, "batches"),
            )
            return list(map(documents.comparison_row, services.store.find(search).rows))

    def comparison(self, id: str, request: gr.Request | None = None) -> dict[str, Any]:
        """Return a saved comparison, as /compare returned it.

        Args:
            id: of the comparison

        Returns:
            id, prompt and runs
        """
        with self._for_visitor(request) as services:
            return documents.comparison_document(_stored(services, id))

    def tokens(
        self, id: str, lane: int = 0, request: gr.Request | None = None
    ) -> list[dict[str, Any]]:
        """Return every token of a saved run: outcome, probabilities p and q, margin r, rank,
        entropy, TV, KL, alternatives. Refused tokens included.

        Args:
            id: of the comparison
            lane: of the run, from 0

        Returns:
            one object a token, in order
        """
        with self._for_visitor(request) as services:
            lane = read_integer(lane, "lane", 0, 10**6)
            return documents.token_documents(_stored(services, id), lane)


def _stored(services: Services, id: str) -> StoredComparison:
    return services.store.load(Text("").read(id, "id"))


def _rules(rules: Any) -> Any:
    """Also a list as JSON text. Raises ValueError."""
    if not isinstance(rules, str) or not rules.lstrip().startswith(("[", "{")):
        return rules
    try:
        return parse(rules.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise ValueError(f"rules is not JSON: {error}.") from None


def _jobs(services: Services, settings: Settings) -> Generator[DriverEvent, None, None]:
    def read(session: "Session") -> Iterable[Batch]:
        configs = session.configs(settings)
        return [Batch(configs, services.rounds(configs, repeats))]

    if not 1 <= len(settings.rules) <= MOST_LANES:
        raise ValueError(f"rules has {len(settings.rules)} rules; it must have 1 to {MOST_LANES}.")
    spec, repeats = admit(services, settings), max(1, settings.repeats)
    return drive(
        services,
        spec,
        read,
        runs=repeats * len(settings.rules),
        new_tokens=settings.max_new_tokens,
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


def _by_position(function: Callable[..., Iterator[Document]]) -> Callable[..., Iterator[Document]]:
    """Gradio passes the arguments in the order of the signature, of which it reads the types."""
    has = signature(function)
    either = Parameter.POSITIONAL_OR_KEYWORD
    known = has.replace(parameters=[each.replace(kind=either) for each in has.parameters.values()])

    def call(*given: Any) -> Iterator[Document]:
        yield from function(**dict(zip(known.parameters, given, strict=False)))

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__signature__ = known  # type: ignore[attr-defined]
    call.__annotations__ = {name: each.annotation for name, each in known.parameters.items()}
    return call


def build_api(services: Services) -> None:
    """Adds the endpoints to the Blocks under construction, to be called before any other event is
    wired: names are given in turn.

    They are the only public ones of the page.
    """
    api = Api(services)
    endpoint(_by_position(api.compare), api_name="compare", **COMPUTES)
    for function in (
        api.rules,
        api.pairs,
        api.comparisons,
        api.comparison,
        api.tokens,
    ):
        endpoint(function, api_name=function.__name__)
