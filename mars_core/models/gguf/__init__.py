"""Models from GGUF files."""

from __future__ import annotations

from mars_core.models.gguf.describing import has_plain_tokenizer, header_of
from mars_core.models.gguf.folder import (
    description,
    fetch_default,
    hash_ahead,
    source_file,
    weights,
)

__all__ = [
    "description",
    "fetch_default",
    "has_plain_tokenizer",
    "hash_ahead",
    "header_of",
    "source_file",
    "weights",
]
