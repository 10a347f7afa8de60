"""All HTTP routes of the page besides Gradio's, in one table. Each reads with the rights of the request's visitor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from storage import StorageError
from ui.jobs.services import Services
from ui.kit.figure import SOURCE, plotly_file
from ui.report.downloads import run_file
from ui.tabs.account.actions import Exports
from ui.tabs.study.downloads import FILES, SWEEP_TABLES, study_file, sweep_file
from ui.tabs.study.reports import Reports
from ui.tabs.votes.tally import results_file

Handler = Callable[[Services, Request], Response]


def handlers(services: Services) -> Mapping[str, Handler]:
    """By address; of several that fit the first answers."""
    reports = Reports(services.store)
    return {
        f"/{SOURCE}": plotly_file,
        "/mine/export.zip": Exports().send,
        "/votes/vote_results.csv": results_file,
        **{f"/downloads/{name}": partial(study_file, reports, name) for name in FILES},
        **{f"/downloads/{name}": partial(sweep_file, name) for name in SWEEP_TABLES},
        "/downloads/{name}": run_file,
    }


def page_routes(services: Services) -> list[BaseRoute]:
    return [Route(path, _answer(services, handler), methods=["GET"]) for path, handler in handlers(services).items()]


def _answer(services: Services, handler: Handler) -> Callable[[Request], Response]:
    """What a handler raises is one sentence: 404 where something was named that is not there or of another version, else 503."""

    def answer(request: Request) -> Response:
        try:
            return handler(services, request)
        except (StorageError, ValueError) as error:
            sentence = services.sentence(error)
            return PlainTextResponse(f"{sentence}\n".encode("utf-8", "replace"), 404 if request.query_params else 503)

    return answer
