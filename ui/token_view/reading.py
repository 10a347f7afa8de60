"""A text as Markdown, for reading: HTML that cannot act. No gradio.

Markup in the text is text. There are no links and no pictures, whose addresses would be the
model's: they stand there as they were written. Nor are there tables, whose cells could be far more
than characters.
"""

from __future__ import annotations

from markdown_it import MarkdownIt

from display.format import displayable

WITHOUT = ("html_block", "html_inline", "image", "link", "autolink", "reference")
LONGEST = 20_000  # characters that are read as Markdown
_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True})
_PARSER.enable("strikethrough").disable(WITHOUT)


def markdown_html(text: str) -> str:
    """Return the text as HTML; empty where it is too long."""
    return "" if len(text) > LONGEST else str(_PARSER.render(displayable(text)))
