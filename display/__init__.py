"""What is displayed, on the page and in files alike: numbers, texts, documents and figures."""
