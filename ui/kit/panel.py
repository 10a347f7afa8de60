"""Panels: HTML that Python renders and escapes, with one script for what a visitor does in it.

A template (Jinja, autoescaped) or a helper writes the HTML; assets/panel/panel.js shows it and reports
events by the attributes of its elements:

* ``data-event="NAME"``: a click (Enter or Space on role=button) triggers gradio's event NAME; on a
  checkbox a change, on a form a submit with its fields added to the value. A name that begins with
  ``mars:`` is a DOM event instead
* ``data-value="JSON"``: the value of that event; an object unless nothing is added to it
* ``data-live``: on a form: a change submits it as well, typing in a search field after a short
  pause
* ``data-confirm``: on a form: its submit button is disabled until every field is valid
* ``data-pending="TEXT"``: what the panel's ``[role=status]`` says until the answer comes
* ``data-on="NAME"``: the DOM event NAME on the document triggers the element's event as a click
  would
* ``data-toggle="ID"``: shows or hides the element ID of this panel
* ``data-figure="JSON"``: the figure of that value is drawn in it (display/assets/figure.js)
* ``data-copy``: copies its value, else the read-only field of the same group
* ``data-hotkey="KEY"``: the key, anywhere in the panel, clicks the element
* ``data-arrows``: on a group: arrow keys walk through its buttons
* ``data-key="KEY"``: what has the focus keeps it across updates, by this key; ``A/…`` falls back to
  another key under ``A/``
* ``data-keep="MARK"``: what the visitor changed here (value, checked, visible or hidden) survives
  updates with the same MARK, which may be empty; ``open`` always does
* ``data-scroll="MARK"``: comes into view when MARK is new; with ``data-target`` the element of that
  selector does
* ``data-focus="MARK"``: gets the focus when MARK is new and the focus was in this panel or lost
* ``data-reveal="#ID"``: a click also opens, scrolls to and focuses the panel with that id, once it
  is there
* ``data-ready="NAME"``: the DOM event NAME is sent when the panel has appeared
* ``data-address="JSON"``: on a field or button: its value becomes this page's address with these
  parameters
* ``<!--STAMP-->`` at the start (``stamped``): a value with an older one than the displayed value is
  left out
* ``<time datetime>`` is written in the visitor's time
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from display import format as format_
from display import names
from display.render import pages
from ui.kit import labels
from ui.kit.assets import script, with_constants

_TEMPLATES = pages(("ui", ""))
_TEMPLATES.globals |= {"format": format_, "labels": labels, "names": names}


def render(template: str, /, **values: Any) -> str:
    """Return the HTML of a template, named by its path below ``ui``, or by its name if it is one of
    a report's document. It has ``format`` and ``names`` (of display) and ``labels`` (ui.kit.labels) to write
    values with. Whatever text they hold is escaped and displayable; a form field that must hold it
    unchanged has ``{{ value | e }}``, a ``data-value`` ``'{{ value | tojson }}'`` in single quotes."""
    html = _TEMPLATES.get_template(template).render(values)
    return html.encode("utf-8", "xmlcharrefreplace").decode(
        "utf-8"
    )  # a lone surrogate cannot be sent


def static_component(html: str = "", *, elem_id: str | None = None) -> gr.HTML:
    """Build a component whose value is escaped HTML in which nothing can be clicked."""
    return gr.HTML(html, js_on_load=None, apply_default_css=False, elem_id=elem_id)


def stamp() -> int:
    """Return the time, in microseconds. Answers to events that follow each other quickly can
    overtake each other."""
    return time.time_ns() // 1000


def stamped(html: str) -> str:
    return f"<!--{stamp()}-->{html}"


def panel_component(
    html: str = "",
    *,
    elem_id: str,
    scripts: Sequence[str] = (),
    constants: Mapping[str, str] | None = None,
    **props: Any,
) -> gr.HTML:
    """Build a component whose value is escaped HTML. ``scripts``: what else of ui/assets/panel
    works in it; ``constants``: their CONSTANTS. ``props``: ``scope`` goes into ``mars:`` events;
    with ``latest`` its events are handled as ``LATEST`` (ui.kit.events)."""
    code = script("morph.js", *(f"panel/{name}" for name in ("panel.js", *scripts)))
    code = with_constants(code, **constants) if constants else code
    return gr.HTML(
        html,
        html_template="<div></div>",
        js_on_load=code,
        apply_default_css=False,
        elem_id=elem_id,
        **props,
    )
