"""All HTTP routes of the page besides Gradio's, in one table. Each reads with the rights of the
request's visitor, of whose downloads few are written at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from storage import StorageError
from ui.jobs.services import Services
from ui.kit.assets import SOURCE, plotly_file
from ui.kit.responses import document_page
from ui.public.origin import is_frame
from ui.public.preview import PICTURE, picture_file
from ui.public.visitors import Visitor
from ui.report.downloads import frame_page, run_file
from ui.tabs.account.panel import export_file
from ui.tabs.study.reports import FILES, StudyReports, study_file
from ui.tabs.votes.tally import results_file

BUSY = "Other downloads of yours are being written; try again when one of them has ended.\n"
Handler = Callable[[Services, Request], Response]


def handlers(services: Services) -> Mapping[str, Handler]:
    """Return the handlers by address; of several that fit the first answers."""
    reports = StudyReports(services.store)
    return {
        "/mine/export.zip": export_file,
        "/votes/vote_results.csv": results_file,
        **{f"/downloads/{name}": partial(study_file, reports, name) for name in FILES},
        "/downloads/{name}": run_file,
    }


def page_routes(services: Services) -> list[BaseRoute]:
    under_way = Downloads(services.limits.downloads)
    routes = {
        path: _answer(services, handler, under_way) for path, handler in handlers(services).items()
    }
    frame = FrameRoute("/", _answer(services, frame_page, under_way), methods=["GET"])
    routes |= {f"/{SOURCE}": plotly_file, f"/{PICTURE}": picture_file}
    routes["/docs/{name:path}"] = document_page
    return [frame, *(Route(path, answer, methods=["GET"]) for path, answer in routes.items())]


class FrameRoute(Route):
    """The page's own address where it says ``embed``; else that is Gradio's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        framed = match is not Match.NONE and is_frame(scope)
        return (match, child) if framed else (Match.NONE, {})


class Downloads:
    """How many files of each owner are being written, ``most`` at once; visitors without a cookie
    count as one. Safe between threads."""

    def __init__(self, most: int | None) -> None:
        self._most, self._owners, self._lock = most, Counter[str](), Lock()

    @contextmanager
    def one_of(self, visitor: Visitor) -> Iterator[bool]:
        """Return whether it may be written."""
        owner = visitor.owner or "" if visitor.lasting else ""
        with self._lock:
            free = self._most is None or self._owners[owner] < self._most
            self._owners[owner] += free
        try:
            yield free
        finally:
            with self._lock:
                self._owners[owner] -= free
                self._owners += Counter()  # without those that have none


def _answer(
    services: Services, handler: Handler, under_way: Downloads
) -> Callable[[Request], Response]:
    """Answer what a handler raises in one sentence: 404 where something was named that is not there
    or of another version, else 503."""

    def answer(request: Request) -> Response:
        try:
            with under_way.one_of(services.for_visitor(request).visitor) as free:
                return handler(services, request) if free else PlainTextResponse(BUSY, 429)
        except (StorageError, ValueError) as error:
            sentence = services.sentence(error)
            return PlainTextResponse(
                f"{sentence}\n".encode("utf-8", "replace"), 404 if request.query_params else 503
            )

    return answer
