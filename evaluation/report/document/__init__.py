"""One document of a report: typed blocks, written as HTML, Markdown and SVG by the templates of this folder."""
