"""A report in its forms: a document of sections, then HTML and Markdown; charts as SVG. Values in, texts out."""
