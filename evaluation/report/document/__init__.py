"""The document of a report: typed blocks, rendered as HTML, Markdown and SVG by the templates of
this folder."""
