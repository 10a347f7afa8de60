"""Models from GGUF files."""

from __future__ import annotations

from mars_core.models.gguf.describing import has_plain_tokenizer, header_in, header_of
from mars_core.models.gguf.folder import (
    description,
    fetch_default,
    hash_ahead,
    source_file,
)

__all__ = [
    "description",
    "fetch_default",
    "has_plain_tokenizer",
    "hash_ahead",
    "header_in",
    "header_of",
    "source_file",
]
