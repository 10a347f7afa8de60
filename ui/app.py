"""The whole page: top, tabs, and what ``launch`` needs to know. Gets its parts from ``app.py`` and reads no environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from storage import RunStore
from ui.about import build_about_tab
from ui.compare import build_compare_tab
from ui.downloads import download_routes
from ui.history import build_history_tab
from ui.theme import page_css, page_theme
from ui.token_view import asset
from ui.workplace import Workplace

TITLE = "MARS Playground"
FAVICON = Path(__file__).parent / "assets" / "favicon.svg"


def build_app(workplace: Workplace) -> gr.Blocks:
    """The page as Gradio blocks; launch it with ``launch_options``."""
    place, pool = workplace, workplace.pool
    page: gr.Blocks
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML(
            value="",
            html_template=asset("top.html"),
            js_on_load=asset("top.js"),
            apply_default_css=False,
            device=f"{pool.device}, {str(pool.dtype).removeprefix('torch.')}",
        )
        with gr.Tabs():
            with gr.Tab("Compare", id="compare"):
                build_compare_tab(place)
            with gr.Tab("History", id="history") as history:
                build_history_tab(place, history)
            with gr.Tab("About", id="about"):
                build_about_tab(place)
    return page


def launch_options(store: RunStore) -> dict[str, Any]:
    """Keyword arguments of ``launch``: the look, closed doors, and the download routes."""
    return {
        "theme": page_theme(),
        "css": page_css(),
        "head": '<meta name="color-scheme" content="light dark">',
        "favicon_path": str(FAVICON),
        "footer_links": [],
        "show_error": False,
        "share": False,
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "max_file_size": "1mb",
        "app_kwargs": {"routes": download_routes(store), "docs_url": None, "redoc_url": None, "openapi_url": None},
    }
