"""Links to downloads of saved runs, in groups. The routes behind them are in report/downloads.py."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from ui.kit.panel import render, static_component

RUN_FILES = ("runs.csv", "tokens.csv", "nodes.csv", "runs.parquet", "tokens.parquet", "nodes.parquet")
VOTE_FILES = ("votes.csv", "votes.parquet")
REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class Group:
    """A title, file names, and the query that all its links carry."""

    title: str
    files: tuple[str, ...]
    query: str


def downloads_html(*groups: Group) -> str:
    return render("kit/templates/downloads.html.jinja", groups=groups)


def downloads_component(name: str) -> gr.HTML:
    """``name`` is the id of the element."""
    return static_component(downloads_html(), elem_id=name)
