"""A page whose endpoint runs until it is closed: ``python -m tests.unit.ui.public.endless FOLDER PORT``.

In the folder NAME has the steps of the run of that name, NAME.closed says that it was closed, and
``others`` that others wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
from gradio.events import api as endpoint
from starlette.middleware import Middleware

from ui.jobs import listeners
from ui.jobs.listeners import Listeners

FOLDER, PORT = Path(sys.argv[1]), int(sys.argv[2])


def run(name: str) -> Iterator[int]:
    step = 0
    try:
        while True:
            step += 1
            (FOLDER / name).write_text("." * step)
            yield step
            time.sleep(0.01)
    finally:
        (FOLDER / f"{name}.closed").touch()


listeners.CHECK_S = 0.5
with gr.Blocks(analytics_enabled=False) as page:
    endpoint(run, api_name="run", concurrency_limit=4)
layer = Middleware(Listeners, page=page, others_wait=(FOLDER / "others").exists)
page.queue().launch(
    server_name="127.0.0.1", server_port=PORT, ssr_mode=False, app_kwargs={"middleware": [layer]}
)
