"""Serves a small page of Gradio's that breaks when used: ``python -m tests.unit.hosting.serve
PORT``. Its log is its standard error."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hosting.health import health_routes
from hosting.logs import set_up
from hosting.metrics import ServerMetrics
from hosting.middleware import SPACE_FRAMES, Guard
from ui.kit.errors import ErrorPages


def breaks(prompt: str) -> str:
    raise RuntimeError(f"cannot read {prompt}")


def breaks_later(prompt: str) -> Iterator[str]:
    yield prompt
    raise RuntimeError(f"cannot go on with {prompt}")


async def broken_route(_request: Request) -> Response:
    raise RuntimeError("zebra")


def main(port: int) -> None:
    set_up(json=True, public=True)
    metrics = ServerMetrics({}, ())
    logging.getLogger("mars.faults").addHandler(metrics)
    routes = [
        *health_routes({"pair": lambda: ""}),
        metrics.route,
        Route("/broken/{secret}", broken_route),
    ]
    with gr.Blocks(analytics_enabled=False) as blocks:
        typed, output = gr.Textbox(), gr.Textbox()
        typed.submit(breaks, typed, output, api_name="breaks")
        typed.change(breaks_later, typed, output, api_name="breaks_later")
        typed.blur(breaks, typed, output, api_name="unqueued", queue=False)
    layers = [Middleware(Guard, frames=SPACE_FRAMES, requests=True), Middleware(ErrorPages)]
    blocks.launch(
        server_name="127.0.0.1",
        server_port=port,
        quiet=True,
        prevent_thread_lock=True,
        show_error=False,
        ssr_mode=False,
        app_kwargs={
            "routes": routes,
            "middleware": layers,
            "docs_url": None,
            "redoc_url": None,
            "openapi_url": None,
        },
    )
    signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]))
