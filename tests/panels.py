"""The HTML of a panel as a reader sees it: texts by class, form fields, and what can be clicked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from display.plot import Plot

VOID = {"input", "br", "img", "meta"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(
            "".join(
                child if isinstance(child, str) else child.text for child in self.children
            ).split()
        )

    @property
    def every(self) -> list[Element]:
        inner = [child for child in self.children if isinstance(child, Element)]
        return [self, *(each for child in inner for each in child.every)]

    def all(self, name: str) -> list[Element]:
        """Those of the tag ``name`` or, with a dot before it, of the class."""
        if name.startswith("."):
            return [
                each for each in self.every if name[1:] in each.attributes.get("class", "").split()
            ]
        return [each for each in self.every if each.tag == name]

    def one(self, name: str) -> Element:
        (component,) = self.all(name)
        return component

    @property
    def hidden(self) -> bool:
        return "hidden" in self.attributes

    @property
    def value(self) -> Any:
        """The data of its event."""
        return json.loads(self.attributes["data-value"])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read_panel(html: str) -> Element:
    """The root; fails where tags do not nest."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    (root,) = reader.open
    return root


def assert_inert(html: str) -> None:
    """No markup of HOSTILE texts, and nothing that would change how the rest is displayed or could not
    be sent."""
    names = {each.tag for each in read_panel(html).every}
    assert not names & {"img", "script", "iframe", "svg"} and html.encode("utf-8")
    assert not [
        name for each in read_panel(html).every for name in each.attributes if name.startswith("on")
    ]
    markup = " ".join(
        each.text
        + " ".join(v for n, v in each.attributes.items() if n not in ("data-value", "value"))
        for each in read_panel(html).every
    )
    assert not set(markup) & set("\u202e\x1b\ud800")


def panels_of(plot: Plot, *, by_caption: bool = False) -> dict[str, list[str]]:
    """The texts of the marks of every panel of a figure, by the caption or the title of its x
    axis."""
    figure = plot.figure.to_plotly_json()
    layout, panels = figure["layout"], dict[str, list[str]]()
    captions = iter(each for each in layout["annotations"] if each["text"].startswith("<b>"))
    for name in [name for name in layout if name.startswith("xaxis")]:
        caption = next(captions)["text"].removeprefix("<b>").removesuffix("</b>")
        on = name.replace("axis", "")
        panels[caption if by_caption else layout[name]["title"]["text"]] = [
            text
            for trace in figure["data"]
            if trace.get("xaxis") == on and trace["mode"] == "markers"
            for text in trace["text"]
        ]
    return panels
