"""Lanes and their bar on a bare page: the scripts of the components with what Gradio would give
them, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Browser, Page

from ui.kit.assets import asset
from ui.kit.theme import page_css
from ui.token_view.components import FOLDER, row_props, script
from ui.token_view.view import LaneView

MOUNT = """([id, code, props]) => {
  const element = document.getElementById(id), seen = {};
  const watch = (name, answer) => { seen[name] = answer; };
  const trigger = (name, detail) => (window.triggered ||= []).push([id, name, detail]);
  new Function("element", "props", "watch", "trigger", code)(element, props, watch, trigger);
  (window.parts ||= {})[id] = { props, send: (value) => { props.value = value; seen.value(); } };
}"""
GROUND = (
    ":root{--body-text-color:#1B1E24;--body-text-color-subdued:#5A606B;--background-fill-primary:#FFF;--border-color-primary:#E3E3DF;"
    "--border-color-accent:#B9BCC3;--color-accent-soft:#EFEFEC;--input-border-color:#CFD0CC;--link-text-color:#1B4F8A}"
    ".dark{--body-text-color:#E6E8EC;--body-text-color-subdued:#A3A9B4;--background-fill-primary:#181B20;"
    "--border-color-primary:#2A2E36;--border-color-accent:#4A505B;--color-accent-soft:#23272F;--input-border-color:#363B45}"
    "body{font:16px sans-serif;margin:12px;background:var(--background-fill-primary);color:var(--body-text-color)}"
)


def open_lanes(
    browser: Browser, views: Sequence[LaneView], *, width: int = 1280, continues: bool = False
) -> Page:
    """A page with a lane for each view, column by column, the bar above them, the ribbon
    and one step below; scope ``test``."""
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    cards = "".join(
        f'<div class="mars-card" id="lane-{i}">{asset("lane/lane.html", FOLDER)}</div>'
        for i in range(len(views))
    )
    reader, ribbon, step = (
        f'<div id="{name}">{asset(f"{name}/{name}.html", FOLDER)}</div>'
        for name in ("reader", "ribbon", "step")
    )
    body = f'{reader}<div class="mars-lanes">{cards}</div>{ribbon}{step}'
    page.set_content(
        f'<html lang="en"><head><title>Lanes</title><style>{GROUND}{page_css()}</style></head><body>{body}</body></html>'
    )
    for lane, view in enumerate(views):
        props: dict[str, Any] = {
            "scope": "test",
            "lane": lane,
            "value": view.json(),
            "continues": continues,
        }
        page.evaluate(MOUNT, [f"lane-{lane}", script("lane"), props | row_props()])
    for name in ("reader", "ribbon", "step"):
        page.evaluate(MOUNT, [name, script(name), {"scope": "test", "value": ""} | row_props()])
    return page


def send(page: Page, lane: int, view: LaneView) -> None:
    page.evaluate("([id, value]) => window.parts[id].send(value)", [f"lane-{lane}", view.json()])


def tell(page: Page, name: str, detail: dict[str, Any]) -> None:
    page.evaluate(
        "([name, detail]) => document.dispatchEvent(new CustomEvent(name, { detail }))",
        [name, {"scope": "test"} | detail],
    )
