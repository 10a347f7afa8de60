"""The page: top, tabs, and what ``launch`` needs to know. Gets its parts from ``app.py`` and
reads no environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send

from display.format import displayable
from ui.api.endpoints import build_api
from ui.jobs.services import Services
from ui.kit.address import FIRST, address_component, wire_tabs
from ui.kit.assets import asset, plotly_script, share_scripts
from ui.kit.components import text_panel
from ui.kit.errors import ErrorPages, error_message
from ui.kit.events import PRIVATE
from ui.kit.gradio_compat import FaultyBlocks, report_progress_on
from ui.kit.theme import page_css, page_theme
from ui.public.access import Access
from ui.public.origin import OriginGuard, VisitorCookie
from ui.public.preview import TITLE, Previews
from ui.routes import page_routes
from ui.settings.values import LINK_NAMES
from ui.sharing import described
from ui.tabs.about import AboutTab
from ui.tabs.account.panel import AccountPanel
from ui.tabs.compare.tab import CompareTab
from ui.tabs.history.tab import HistoryTab
from ui.tabs.study.tab import QualityTab
from ui.tabs.votes.tab import VotesTab

# whose values Gradio keeps; then those unused for longest go, with what they had selected
MOST_SESSIONS = 2_000
TABS = (FIRST, "quality", "history", "votes", "about")
FAVICON = Path(__file__).parent / "assets" / "favicon.svg"


def build_app(services: Services, opened: Callable[[], object] = lambda: None) -> gr.Blocks:
    """Build the page as Gradio blocks; launch it with ``launch_options``. ``opened`` is called
    whenever a browser has drawn it."""
    pool = services.pool

    def show_device() -> str:
        opened()
        return f"{str(pool.device).upper()}, {pool.numbers}"

    page: gr.Blocks
    with FaultyBlocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        build_api(services)
        top = gr.HTML(
            value="",
            html_template=asset("top.html"),
            apply_default_css=False,
            js_on_load="\n".join((plotly_script(), asset("top.js"), asset("tour.js"))),
        )
        top.select(show_device, None, top, **PRIVATE)
        if services.notice:
            text_panel(
                "mars-page mars-notice",
                displayable(error_message(services.notice, public=services.public)),
            )
        address = address_component(LINK_NAMES)
        with gr.Tabs() as tabs:
            each = {name: gr.Tab(name.title(), id=name) for name in TABS}
            with each[FIRST]:
                compare_tab = CompareTab(services, address)
                compare_tab.wire()
            with each["quality"] as tab:
                quality_tab = QualityTab(services)
                quality_tab.wire(tab)
                quality_tab.follow_up(compare_tab.view.strip, tabs)
            with each["history"] as tab:
                if services.public:
                    AccountPanel(services).wire(tab)
                HistoryTab(services, address).wire(tab)
            with each["votes"] as tab:
                VotesTab(services).wire(tab)
            with each["about"]:
                AboutTab(services)
        wire_tabs(address, tabs, each)
        report_progress_on(page, compare_tab.view.strip)
    return page


class PageCompression(GZipMiddleware):
    """Compresses the page and its configuration: gradio compresses what has a file extension, and
    these have none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = scope["type"] == "http" and scope["path"].rpartition("/")[2] in ("", "config")
        await (super().__call__ if page else self.app)(scope, receive, send)


def page_layers(
    services: Services, *, trust_proxy: bool = False, hosts: Sequence[str] = ()
) -> list[Middleware]:
    """Return what every request goes through, the outermost first. ``trust_proxy``: a proxy in
    front sets the X-Forwarded headers; ``hosts``: further names of a private page."""
    return [
        Middleware(ErrorPages),
        Middleware(OriginGuard, trust_proxy=trust_proxy, hosts=None if services.public else hosts),
        *([Middleware(VisitorCookie)] if services.public else []),
        Middleware(Access, public=services.public),
        Middleware(PageCompression, compresslevel=5),
        Middleware(Previews, describe=partial(described, services), public=services.public),
    ]


def launch_options(page: gr.Blocks, services: Services, **layers: Any) -> dict[str, Any]:
    """Keyword arguments of ``launch``: the look, closed doors, the routes and the layers around
    them, as ``page_layers``."""
    return {
        "theme": page_theme(),
        "css": page_css(),
        "head": f'<meta name="color-scheme" content="light dark">{share_scripts(page)}',
        "favicon_path": str(FAVICON),
        "footer_links": ["api"],
        "show_error": False,
        "share": False,
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "max_file_size": "1mb",
        "state_session_capacity": MOST_SESSIONS,
        "app_kwargs": {
            "routes": page_routes(services),
            "middleware": page_layers(services, **layers),
            "docs_url": None,
            "redoc_url": None,
            "openapi_url": None,
        },
    }
